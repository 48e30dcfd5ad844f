// SPDX-License-Identifier: Apache-2.0
// A batch of matrix products as products that oneDNN gets right.
#pragma once

#include <optional>
#include <vector>

#include "cpu_fallback/kernels/convolution_problem.h"

namespace krafla::cpu {

// One product for each offset: batch dimensions that the shapes below do not have.
struct RegularProducts {
  TensorView a, b, result;  // of one product; at most one batch dimension, which all three have
  struct Offsets {
    int64_t a, b, result;  // elements
  };
  std::vector<Offsets> offsets;
};

// oneDNN 3.7.2 reads and writes outside of its arrays, or sums other elements, when matrices lie otherwise: over random
// strides some 8 in 100 products of two batch dimensions were wrong or crashed, of one that an operand repeats 1 in
// 1,500, of vectors with strides two in three; of what this function lets through none in 94,000. So: matrices with a
// stride of one along a dimension of more than one element, and one batch dimension that nothing repeats. Batch
// dimensions that lie one within the other in all three are merged first.
//
// Views as MakeOneDnnMatmul takes them. Nothing where a matrix has no stride of one, where there would be more than
// `most` products, or one would have less than `least_flops` operations (2 m n k, over its batch).
std::optional<RegularProducts> SplitIntoRegularProducts(const TensorView& a, const TensorView& b,
                                                        const TensorView& result, int64_t most, double least_flops);

}  // namespace krafla::cpu
