// SPDX-License-Identifier: Apache-2.0
// ReduceOps::tiles of numbers of 8 and 16 bits, in lanes of that width or, where floats are added up, in f32.
#pragma once

#include "cpu_fallback/kernels/reduce_ops.h"

namespace krafla::cpu {

// Of integers everything, whose low bits are those of wider numbers, and of floats the extrema; otherwise null.
decltype(ReduceOps::tiles) FindNarrowTiles(plan::Reduction::Kind kind, ElementType type);
// Sums and products of bf16 and f16, which are loaded as such and folded into an accumulator of f32; otherwise null.
decltype(ReduceOps::tiles) FindWideningTiles(plan::Reduction::Kind kind, ElementType type);

}  // namespace krafla::cpu
