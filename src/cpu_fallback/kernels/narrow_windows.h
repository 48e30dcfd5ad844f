// SPDX-License-Identifier: Apache-2.0
// ReduceOps::tiles of numbers of 8 and 16 bits, in lanes of that width.
#pragma once

#include "cpu_fallback/kernels/reduce_ops.h"

namespace krafla::cpu {

// Of integers everything, whose low bits are those of wider numbers, and of floats the extrema; otherwise null.
decltype(ReduceOps::tiles) FindNarrowTiles(plan::Reduction::Kind kind, ElementType type);

}  // namespace krafla::cpu
