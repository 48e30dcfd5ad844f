// SPDX-License-Identifier: Apache-2.0
// Sums of f32 that are added up in f64.
#pragma once

#include <cstddef>

namespace krafla::cpu {

// totals[i] += values[i]
void AddF32(const float* values, std::size_t n, double* totals);
// to[i] = totals[i], rounded
void RoundTotals(const double* totals, std::size_t n, float* to);

}  // namespace krafla::cpu
