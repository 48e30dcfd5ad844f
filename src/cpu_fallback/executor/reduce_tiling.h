// SPDX-License-Identifier: Apache-2.0
// How a reduction is walked: which dimensions its tiles lie along, and in which lanes its values are combined.
#pragma once

#include <vector>

#include "cpu_fallback/executor/block_program.h"
#include "plan/kernel_plan.h"

namespace krafla::cpu {

enum class ReduceLayout : uint8_t {
  kRows,            // columns along a row dimension, rows of the tile along another: one lane a row
  kRowsByElements,  // columns along a row dimension, rows of the tile along an element dimension
  kElements,        // both sides along element dimensions: one lane
  kElementsByRows,  // columns are all the elements, rows of the tile along a row dimension: one lane a row
};
struct ReduceTiling {
  ReduceLayout layout = ReduceLayout::kElements;
  TileShape tile;
  bool has_dense_columns = false;  // read where they lie, whole lines of them
  int64_t plane_stride = 0;        // of a tile's planes, where it has some
};

// For each result of each stage the narrow type as which it is combined, and its accumulators are kept until they are
// done; kInvalid: its compute type.
using ReduceLanes = std::vector<std::vector<ElementType>>;
ReduceLanes FindReduceLanes(const plan::ReduceKernel& body);

ReduceTiling ChooseReduceTiling(const plan::ReduceKernel& body, const ReduceLanes& lanes);

// Whether groups of values may be combined first, and the result depends on the groups: sums of floats, say.
bool IsRoundedByOrder(const plan::Reduction& reduction);

// Whether native code may fold values of the type as it computes them (NativePlanner::CanFold): one value an element,
// of 32 or 64 bits, into a sum, a product or an extremum.
bool IsFolded(const plan::Reduction& reduction, ElementType type);

}  // namespace krafla::cpu
