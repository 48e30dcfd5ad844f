// SPDX-License-Identifier: Apache-2.0
// Products of lines of signed bytes along the depth with a vector of bf16. A weight is a byte times the scale of its
// line, or of a group of the line's places, rounded to bf16.
#pragma once

#include <cstdint>

#include "cpu_fallback/kernels/weight_lines.h"
#include "krafla/element_type.h"

namespace krafla::cpu {

// Places of a line that are read together: a multiple of them, or all, have their scale in common.
inline constexpr int64_t kBytePlaces = 64;

// For scales of a type: f32, f16 or bf16. Null where there is none, or the processor has no products of bf16.
using ByteLinesFn = void (*)(const WeightLines& product);
ByteLinesFn FindByteLines(ElementType scales);

}  // namespace krafla::cpu
