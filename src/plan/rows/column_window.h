// SPDX-License-Identifier: Apache-2.0
// The parts of an attention kernel over some of the columns, of which a run says where they begin.
#pragma once

#include <span>
#include <vector>

#include "plan/rows/row_kernel.h"

namespace krafla::plan {

// How many windows of `width` columns there are, each of which begins `step` columns behind the one before.
int64_t ColumnWindows(int64_t columns, int64_t width, int64_t step);
// `parts`: those that PartsOfAttention gives, whose products read arrays. The same over the columns of a window alone,
// with one more free dimension, the first: the window. What lies between them keeps its place in arrays of all columns.
std::vector<KernelPlan> WithColumnWindows(std::span<const KernelPlan> parts, int64_t width, int64_t step);

}  // namespace krafla::plan
