// SPDX-License-Identifier: Apache-2.0
// What the ways to sort share: where the rows of a SortKernel lie, and its keys as unsigned words.
#pragma once

#include <optional>
#include <vector>

#include "plan/comparator_keys.h"
#include "spirv_codegen/kernels/context.h"

namespace krafla::spirv {

// Rows are the lines along the dimension in the order (outer, inner).
class SortRows {
 public:
  explicit SortRows(const plan::SortKernel& sort);

  int64_t rows() const { return outer_ * inner_; }
  int64_t length() const { return length_; }
  int64_t keep() const { return keep_; }  // of each row's first results, what is read
  // Where place `place` of a row lies in the operands.
  Value OperandIndex(Builder& b, Value row, Value place) const;
  // Operand `operand` there, in its compute type.
  Value Operand(KernelWriter& w, int operand, Value row, Value place) const;
  // Stores what was at `position` of the row at `place` of the results.
  void Move(KernelWriter& w, Value row, Value place, Value position) const;

 private:
  const plan::SortKernel& sort_;
  int64_t outer_ = 1, inner_ = 1, length_ = 1, keep_ = 1;
};

// A comparator's keys as words of 32 bits, the first one first, which are in order where the values are. Only bits
// [low, high) tell words apart; those from `high` on are zero.
class SortKeys {
 public:
  // Nothing where the comparator does not compare keys.
  static std::optional<SortKeys> Of(const plan::SortKernel& sort);

  struct Word {
    std::size_t rule = 0;
    bool is_low_half = false;  // of 64 bits
    int low = 0, high = 32;
  };
  std::span<const Word> words() const { return words_; }
  Value Load(KernelWriter& w, const SortRows& rows, const Word& word, Value row, Value place) const;

 private:
  std::vector<plan::KeyRule> rules_;
  std::vector<plan::KeyWidth> widths_;
  std::vector<std::vector<int>> operands_;  // of each rule
  std::vector<plan::ElementProgram> programs_;
  std::vector<Word> words_;
};

// The two ways.
Result<EmittedProgram> EmitDigitSort(const plan::KernelPlan& plan, const plan::SortKernel& sort, const SortKeys& keys,
                                     const Target& target);
Result<EmittedProgram> EmitMergeSort(const plan::KernelPlan& plan, const plan::SortKernel& sort, const Target& target);

}  // namespace krafla::spirv
