// SPDX-License-Identifier: Apache-2.0
// Elements of 1, 2, 4 or 8 bytes as they lie side by side in words of 4 or 8 bytes: read by words from any place,
// shifted into place together, and chosen among by masks.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "spirv_codegen/buffers.h"

namespace krafla::spirv {

class ElementWords {
 public:
  // An element: number `at` of a word.
  struct Place {
    Value word;
    int at = 0;
  };
  // Where elements are read: the first at `first`, which is `multiple` * n + `phase`, and the others so far from it.
  struct Source {
    int buffer = 0;
    Value first;
    int64_t multiple = 1, phase = 0;
    std::span<const int64_t> offsets;
    bool in_range = false;  // all of them lie in the buffer; where not, any bits are read for those that do not
  };

  ElementWords(Builder& b, Buffers& buffers, int element_bytes, int word_bytes)
      : b_(b), buffers_(buffers), element_bytes_(element_bytes), word_bytes_(word_bytes) {}

  int per_word() const { return word_bytes_ / element_bytes_; }
  Kind kind() const { return word_bytes_ == 8 ? Kind::kU64 : Kind::kU32; }

  // How many words Read reads.
  static int64_t ReadsOf(int64_t multiple, int64_t phase, std::span<const int64_t> offsets, int per_word);
  std::vector<Place> Read(const Source& source);
  // The words that hold these elements in their order, which are those of lines of `line` elements.
  Values Pack(std::span<const Place> places, int64_t line) const;
  // The last `count` elements of `low`, fewer than a word has, and behind them the first ones of `high`.
  Value Shifted(Value low, Value high, Value count) const;
  // Elements 4 * number and the three behind it, zero-extended, of up to 4 bytes each; and the words that hold them
  // all.
  Value Four(std::span<const Value> words, int number) const;
  Values PackFours(std::span<const Value> fours) const;
  // Stores a word of elements at element `index`, a multiple of their number.
  void Store(int buffer, Value index, Value word);
  void StoreElement(int buffer, Value index, Value word, int at);

  Value Repeated(uint64_t element) const;  // a word of it
  // Words of which the bits of the first `count` elements are set; the count is signed.
  Values FirstElements(Value count, int words) const;
  // The word's elements that are named have all their bits set.
  Value Mask(std::span<const bool> elements) const;
  // Elements of preds, of which each is 0 or 1, as masks.
  Value MaskOfPreds(Value word) const;
  Value Choose(Value mask, Value a, Value b) const;

 private:
  Value LoadWord(int buffer, Value number, bool in_range);
  Value Assembled(std::span<const Place> places) const;
  bool Transpose(std::span<const Place> places, std::size_t line, std::span<Value> out) const;
  Value Word(uint64_t bits) const { return b_.Const(kind(), word_bytes_ == 8 ? bits : bits & 0xffffffffu); }
  Value U(int64_t v) const { return b_.U32(static_cast<uint32_t>(v)); }
  int element_bits() const { return element_bytes_ * 8; }
  int word_bits() const { return word_bytes_ * 8; }
  uint64_t ElementMask() const { return element_bytes_ == 8 ? ~uint64_t{0} : (uint64_t{1} << element_bits()) - 1; }

  Builder& b_;
  Buffers& buffers_;
  int element_bytes_, word_bytes_;
};

}  // namespace krafla::spirv
