// SPDX-License-Identifier: Apache-2.0
// Sums of many floats: of groups in f32, whose sums are added in f64 (kernels/long_sums.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace krafla::cpu {

// Additions to one f32 that follow each other. The error of a long sum is the mean of that of many groups, which may be
// larger then.
inline int64_t GroupTurns(int64_t elements) {
  return std::clamp<int64_t>(static_cast<int64_t>(std::sqrt(static_cast<double>(elements))), 32, 256);
}

}  // namespace krafla::cpu
