// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "ir/module.h"

namespace krafla::plan {

// What a reduce keeps and what it folds: its rows and the elements of a row.
struct ReduceSplit {
  Dims operand_dims;
  std::vector<int> row, element;  // dimensions of the operand
  Dims row_dims, element_dims;
  int64_t rows = 1, elements = 1;
};

ReduceSplit SplitOf(const Instruction& reduce);

// The inputs (first half) and inits (second half) of a reduce or reduce-window.
inline std::size_t ReduceInputCount(const Instruction& i) { return i.operand_count() / 2; }

}  // namespace krafla::plan
