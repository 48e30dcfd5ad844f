// SPDX-License-Identifier: Apache-2.0
// Sums of many floats: of groups in f32, whose sums are added in f64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace krafla::cpu {

// Additions to one f32 that follow each other. The error of a long sum is the mean of that of many groups, which may be
// larger then.
inline int64_t GroupTurns(int64_t elements) {
  return std::clamp<int64_t>(static_cast<int64_t>(std::sqrt(static_cast<double>(elements))), 32, 256);
}

inline void AddF32(const float* values, std::size_t n, double* totals) {
  for (std::size_t i = 0; i < n; ++i) totals[i] += static_cast<double>(values[i]);
}
inline void RoundTotals(const double* totals, std::size_t n, float* to) {
  for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<float>(totals[i]);
}

}  // namespace krafla::cpu
