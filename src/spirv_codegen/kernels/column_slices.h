// SPDX-License-Identifier: Apache-2.0
// Products of few rows with a matrix whose columns lie side by side: the usual product of a vector with weights.
#pragma once

#include "spirv_codegen/kernels/matrix.h"

namespace krafla::spirv {

// A workgroup takes all rows of 4 * `lanes` columns. Its invocations are `lanes` along the columns by `slices` along
// the depth, of which each reads four lines at a time; what the slices have is added up in shared memory. A product of
// one row would otherwise keep one invocation busy for each column or four, which fills no GPU.
struct ColumnSlices {
  uint32_t lanes = 8, slices = 32;
  uint32_t local() const { return lanes * slices; }
};
int64_t SharedBytes(const TileProblem& problem, const ColumnSlices& slices);
// The problem has one segment.
Result<EmittedDispatch> EmitColumnSlices(KernelWriter& w, const TileProblem& problem, const TileOperands& operands,
                                         const ColumnSlices& slices);

}  // namespace krafla::spirv
