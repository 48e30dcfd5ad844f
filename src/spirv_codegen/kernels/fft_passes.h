// SPDX-License-Identifier: Apache-2.0
// A Fourier transform as passes over memory, by Stockham's algorithm: each pass does one radix of every line, reads
// with one stride and writes with another, so that the result comes out in natural order. Lengths with a large prime
// factor are done by Bluestein's convolution.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/kernel_plan.h"

namespace krafla::spirv {

struct FftPass {
  int64_t outer = 1, inner = 1;  // there are outer * inner lines, `inner` of them side by side
  int64_t points = 1;
  int radix = 1;
  int64_t done = 1;  // product of the radices of earlier passes
  int sign = -1;
  enum class Form : uint8_t { kComplex, kReal, kHalf };
  // What a line of the source and of the destination holds. kHalf is the first half of a spectrum whose other half
  // mirrors it. The points of the source from `points_in` on count as zeros.
  Form read = Form::kComplex, write = Form::kComplex;
  int64_t stored_in = 1, stored_out = 1, points_in = 1;
  double scale = 1;
  // Offsets into the table in complex numbers; -1 where the pass does without.
  int64_t twiddles = -1;      // exp(sign 2 pi i t / points)
  int64_t multiply_in = -1;   // what each point is multiplied by when it is read
  int64_t multiply_out = -1;  // and when it is written
};

struct FftPasses {
  std::vector<FftPass> passes;
  std::vector<double> table;  // complex numbers as pairs
};

// `most_radix` is the largest radix of a butterfly in registers. Larger prime factors are summed up directly, up to
// kMostDirect.
inline constexpr int kMostDirect = 100;
FftPasses PlanFft(const plan::FftKernel& fft, int most_radix);

}  // namespace krafla::spirv
