// SPDX-License-Identifier: Apache-2.0
// Products of complex numbers, one after the other, as the signs of their zeros depend on the order.
#pragma once

#include <cstdint>

#include "krafla/element_type.h"

namespace krafla::cpu {

// The parts of complex numbers, each an array of their own.
struct ComplexParts {
  const void *re = nullptr, *im = nullptr;
};
struct ComplexAccumulators {
  void *re = nullptr, *im = nullptr;
};

struct ComplexProducts {
  // accumulator[r] = accumulator[r] * in[r, 0] * ... * in[r, n - 1].
  void (*rows)(ComplexParts in, int64_t rows, int64_t n, ComplexAccumulators accumulator) = nullptr;
  // accumulator[c] = accumulator[c] * in[0, c] * ... * in[rows - 1, c].
  void (*columns)(ComplexParts in, int64_t rows, int64_t columns, ComplexAccumulators accumulator) = nullptr;
};
// `part`: f32 or f64.
ComplexProducts FindComplexProducts(ElementType part);

}  // namespace krafla::cpu
