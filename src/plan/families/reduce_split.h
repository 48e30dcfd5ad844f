// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "ir/module.h"

namespace krafla::plan {

// How a reduce splits the dimensions of its operand: those that it keeps count the rows, those that it reduces count
// the elements of a row.
struct ReduceSplit {
  Dims operand_dims;
  std::vector<int> row, element;  // dimensions of the operand
  Dims row_dims, element_dims;
  int64_t rows = 1, elements = 1;
};

ReduceSplit SplitOf(const Instruction& reduce);

// How many inputs a reduce or reduce-window has. They are the first half of its operands, their initial values the
// second.
inline std::size_t ReduceInputCount(const Instruction& i) { return i.operand_count() / 2; }

}  // namespace krafla::plan
