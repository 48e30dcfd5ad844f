// SPDX-License-Identifier: Apache-2.0
// Kernels seen by the dimensions that they can run in parts: a loop's dimensions, the rows of reductions, the batch and
// the rows of a dot. Other families have none.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "plan/kernel_plan.h"
#include "plan/reindex.h"

namespace krafla::plan {

// The extents of those dimensions; a dot's last one is m. Nothing for other families.
std::optional<Dims> FreeDims(const KernelPlan& kernel);

// A dot whose epilogue runs over [batch..., m, n], and any other kernel as it is.
KernelPlan WithOwnDims(KernelPlan kernel);

// The same kernel over other free dimensions. `images`: one for each free dimension. A dot's last new dimension is m
// again, and the batch dimensions of a computed right operand must not depend on it.
KernelPlan ReindexFree(const KernelPlan& kernel, const Dims& free, std::span<const DimImage> images);
// Dimension `dim` as two, the inner one of `inner` elements, a divisor of its extent.
KernelPlan SplitFree(const KernelPlan& kernel, int dim, int64_t inner);
// The part [begin, begin + extent) of dimension `dim` alone.
KernelPlan NarrowFree(const KernelPlan& kernel, int dim, int64_t begin, int64_t extent);

// How a kernel reaches an element of a binding.
struct RowAccess {
  int binding = 0;
  bool is_store = false;
  // By free dimension: elements that the index goes on by; nothing where it is not affine in that dimension.
  std::vector<std::optional<int64_t>> strides;
  Interval rest;  // of the index where all free dimensions with a stride are 0
};
std::vector<RowAccess> AccessesOf(const KernelPlan& kernel);

// A split of a free dimension that may make an index affine which is not; nothing where there is none.
struct FreeSplit {
  int dim = 0;
  int64_t inner = 1;
};
std::optional<FreeSplit> FindFreeSplit(const KernelPlan& kernel);

// A kernel over the part of its free dimensions that one block has. The others are dimensions of a grid of blocks.
struct BlockKernel {
  KernelPlan kernel;
  // Where each of its bindings lies: so many elements behind the begin of a binding of the whole kernel, and so many
  // more for each step in the grid. Binding -1: the block's place in the grid, an s32 a dimension.
  struct From {
    int binding = -1;
    int64_t first = 0;
    Dims strides;
    friend bool operator==(const From&, const From&) = default;
  };
  std::vector<From> bindings;
};
// grid_of: the grid's dimension that a free dimension is, or -1 where it belongs to the block. Nothing where the block
// would have to write a binding in two ways.
std::optional<BlockKernel> TakeBlock(const KernelPlan& kernel, std::span<const int> grid_of, const Dims& grid);

}  // namespace krafla::plan
