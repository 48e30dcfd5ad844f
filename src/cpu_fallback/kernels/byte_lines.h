// SPDX-License-Identifier: Apache-2.0
// Products of lines of signed bytes along the depth with a vector of bf16. A weight is a byte times the scale of its
// line, or of a group of the line's places, rounded to bf16.
#pragma once

#include <cstddef>
#include <cstdint>

#include "krafla/element_type.h"

namespace krafla::cpu {

// Places of a line that are read together: a multiple of them, or all, have their scale in common.
inline constexpr int64_t kBytePlaces = 64;

// sums[j] is that of line j.
struct ByteLines {
  const std::byte* weights = nullptr;
  int64_t stride = 0;  // bytes from line to line
  int64_t lines = 0, depth = 0, group = 0;
  const std::byte* scales = nullptr;  // a line's side by side; null: 1
  int64_t scales_stride = 0;          // elements from line to line
  const uint16_t* vector = nullptr;   // bf16
  float* sums = nullptr;
};
// For scales of a type: f32, f16 or bf16. Null where there is none, or the processor has no products of bf16.
using ByteLinesFn = void (*)(const ByteLines& product);
ByteLinesFn FindByteLines(ElementType scales);

}  // namespace krafla::cpu
