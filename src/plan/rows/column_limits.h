// SPDX-License-Identifier: Apache-2.0
// Between which columns a row has scores that a mask leaves it, as programs over the rows: what a mask compares a
// column with is computed where the kernel runs, and may be read from memory, as the position in a cache of keys is.
#pragma once

#include <optional>

#include "plan/kernel_plan.h"

namespace krafla::plan {

// Of the scores' kernel, whose epilogue stores one value: `low` where it is masked. Nothing where no comparison of the
// mask says anything about columns.
std::optional<ColumnLimits> FindColumnLimits(const DotKernel& scores, double low, double least);

// A value that is a number of which the size is at most `factor` times that of the product, and a choice that is `low`
// where it is masked.
struct AddedMask {
  NodeId choice = kNoNode;
  double low = 0, factor = 0;
};
std::optional<AddedMask> FindAddedMask(const ElementProgram& epilogue);

}  // namespace krafla::plan
