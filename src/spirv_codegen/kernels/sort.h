// SPDX-License-Identifier: Apache-2.0
// What the variants of a sort share: where the rows of a SortKernel lie, and its keys as unsigned words.
#pragma once

#include <optional>
#include <vector>

#include "plan/comparator_keys.h"
#include "spirv_codegen/kernels/context.h"

namespace krafla::spirv {

// The rows that are sorted: the lines along the sorted dimension, numbered in the order (outer, inner).
class SortRows {
 public:
  explicit SortRows(const plan::SortKernel& sort);

  int64_t rows() const { return outer_ * inner_; }
  int64_t length() const { return length_; }
  int64_t keep() const { return keep_; }  // how many results at the start of a row are read
  // The index into the operands of place `place` of a row.
  Value OperandIndex(Builder& b, Value row, Value place) const;
  // The element of operand `operand` there, in its compute type.
  Value Operand(KernelWriter& w, int operand, Value row, Value place) const;
  // Stores the elements at `position` of a row of the operands to `place` of that row of the results.
  void Move(KernelWriter& w, Value row, Value place, Value position) const;

 private:
  const plan::SortKernel& sort_;
  int64_t outer_ = 1, inner_ = 1, length_ = 1, keep_ = 1;
};

// A comparator's keys as unsigned words of 32 bits, the most significant first, which are ordered as the values are.
// Only the bits [low, high) of a word differ between elements; those from `high` on are zero.
class SortKeys {
 public:
  // The keys of a sort; nothing where its comparator does not compare keys.
  static std::optional<SortKeys> Of(const plan::SortKernel& sort);

  struct Word {
    std::size_t rule = 0;
    bool is_low_half = false;  // the low half of a key of 64 bits
    int low = 0, high = 32;
  };
  std::span<const Word> words() const { return words_; }
  Value Load(KernelWriter& w, const SortRows& rows, const Word& word, Value row, Value place) const;

 private:
  std::vector<plan::KeyRule> rules_;
  std::vector<plan::KeyWidth> widths_;
  std::vector<std::vector<int>> operands_;  // for each rule
  std::vector<plan::ElementProgram> programs_;
  std::vector<Word> words_;
};

// The two variants.
Result<EmittedProgram> EmitDigitSort(const plan::KernelPlan& plan, const plan::SortKernel& sort, const SortKeys& keys,
                                     const Target& target);
Result<EmittedProgram> EmitMergeSort(const plan::KernelPlan& plan, const plan::SortKernel& sort, const Target& target);

}  // namespace krafla::spirv
