// SPDX-License-Identifier: Apache-2.0
// Lines of weights along the depth, and the vector of bf16 that they are multiplied with.
#pragma once

#include <cstddef>
#include <cstdint>

namespace krafla::cpu {

// sums[j] is that of line j.
struct WeightLines {
  const std::byte* weights = nullptr;
  int64_t stride = 0;  // bytes from line to line
  int64_t lines = 0, depth = 0, group = 0;
  const std::byte* scales = nullptr;  // a line's side by side; null: 1
  int64_t scales_stride = 0;          // elements from line to line
  const uint16_t* vector = nullptr;   // bf16
  float* sums = nullptr;
};

// Whether the processor has products of bf16, and what the kernels with them use besides: AVX-512-BF16 and -VBMI2.
bool HasBf16Products();
// Whether one of them, and a rounding of two vectors to bf16, take no longer than what they stand for: Intel's
// processors take four operations for either (measured on a Granite Rapids, where one has two cycles and a fused
// product in f32 half of one).
bool HasFastBf16Products();

}  // namespace krafla::cpu
