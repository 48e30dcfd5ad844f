// SPDX-License-Identifier: Apache-2.0
// A Fourier transform as passes over memory. Stockham's algorithm: each pass does one radix of every line, reads with
// one stride, writes with another, and leaves the result in natural order. Lengths with a large prime factor go through
// Bluestein's convolution.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/kernel_plan.h"

namespace krafla::spirv {

struct FftPass {
  int64_t outer = 1, inner = 1;  // lines before and beside each other
  int64_t points = 1;
  int radix = 1;
  int64_t done = 1;  // product of the radices of earlier passes
  int sign = -1;
  enum class Form : uint8_t { kComplex, kReal, kHalf };
  // What a line of the source and of the destination hold. kHalf: the first half of a spectrum whose other half mirrors
  // it. Points from `points_in` on are zeros.
  Form read = Form::kComplex, write = Form::kComplex;
  int64_t stored_in = 1, stored_out = 1, points_in = 1;
  double scale = 1;
  // Offsets into the table, in complex numbers; -1: none.
  int64_t twiddles = -1;      // exp(sign 2 pi i t / points)
  int64_t multiply_in = -1;   // by table[point] when reading
  int64_t multiply_out = -1;  // when writing
};

struct FftPasses {
  std::vector<FftPass> passes;
  std::vector<double> table;  // pairs
};

// `most_radix`: of one butterfly in registers. Larger primes are summed directly up to kMostDirect.
inline constexpr int kMostDirect = 100;
FftPasses PlanFft(const plan::FftKernel& fft, int most_radix);

}  // namespace krafla::spirv
