// SPDX-License-Identifier: Apache-2.0
// The order in which XLA:CPU visits the elements of a window, which decides between equals: row-major, but that one
// dimension may have its last element visited after all others. Its compiler splits such a loop so that the larger part
// needs no test for padding (XLA: peel_loops.cc). And the taps one by one, each a strided slice for all windows.
#pragma once

#include <optional>

#include "ir/attributes.h"
#include "krafla/shape.h"

namespace krafla {

// The dimension whose last tap comes last, if there is one. `dims`: of the array; `windows`: how many windows there are
// along each dimension.
std::optional<int64_t> DimensionVisitedLast(const Window& window, const Dims& dims, const Dims& windows);

// A window's padding and dilation of the base as a pad, and what all windows see at `tap` of an array so padded.
PadAttributes PaddingOf(const Window& window);
SliceAttributes TapSlice(const Window& window, const Dims& tap, const Dims& windows);

}  // namespace krafla
