// SPDX-License-Identifier: Apache-2.0
// Sums, products, extrema and logical reductions of blocks. The order of combination is fixed for a length: it does not
// depend on threads.
#pragma once

#include <cstdint>

#include "krafla/element_type.h"
#include "plan/kernel_plan.h"

namespace krafla::cpu {

// Columns of so many rows are combined in turn, of more as even rows and odd ones.
inline constexpr int64_t kRowsInTurn = 4;

// Arrays of rows that lie so many elements from each other.
struct RowPlanes {
  int64_t count = 1, stride = 0;
};

struct ReduceOps {
  // accumulator[r] = accumulator[r] (op) in[r, 0] (op) ... in[r, n - 1].
  void (*rows)(const void* in, int64_t rows, int64_t n, void* accumulator) = nullptr;
  // accumulator[c] = accumulator[c] (op) in[0, c] (op) ... in[rows - 1, c], of one plane after the other.
  void (*columns)(const void* in, RowPlanes planes, int64_t rows, int64_t columns, void* accumulator) = nullptr;
  // accumulator[r * accumulator_stride + c] (op)= in[r * row_stride + c * column_stride] for one array after the other.
  // Strides in elements; at most kMostTiles arrays.
  static constexpr int64_t kMostTiles = 8;
  void (*tiles)(const void* const* in, int64_t arrays, int64_t row_stride, int64_t column_stride, int64_t rows,
                int64_t columns, void* accumulator, int64_t accumulator_stride) = nullptr;
  // Of a vector of `rows`, whose order of combination follows from them; 0 where that is of no matter.
  int lanes = 0;
};

// `type` is a compute type, or the storage type of 8 or 16 bits that the values are combined in. Null functions for
// kOther and for ops that the type does not have; predicates and narrow types have no `tiles`, narrow types no
// products, and of narrow floats there are extrema alone. A NaN among the extrema of floats is any NaN.
ReduceOps FindReduceOps(plan::Reduction::Kind kind, ElementType type);
// The same for the narrow types.
ReduceOps FindNarrowReduceOps(plan::Reduction::Kind kind, ElementType type);

}  // namespace krafla::cpu
