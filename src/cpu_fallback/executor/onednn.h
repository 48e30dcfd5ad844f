// SPDX-License-Identifier: Apache-2.0
// oneDNN's matrix product and convolution, behind an interface that builds without it: then nothing is ever made.
// oneDNN works with one thread a call; problems are cut into parts here, and the parts are the pool's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/inline_vector.h"
#include "base/thread_pool.h"
#include "ir/element_type.h"

namespace krafla::cpu {

// A view of an array: logical dimensions with strides, and where it begins, in elements.
struct TensorView {
  Dims dims, strides;
  ElementType type = ElementType::kF32;
  int64_t offset = 0;
};

class OneDnnProblem {
 public:
  virtual ~OneDnnProblem() = default;
  // Scratch at a 64-byte boundary.
  virtual int64_t scratch_bytes() const = 0;
  // One run at a time: a second one waits. False where oneDNN reports an error.
  virtual bool Run(const void* a, const void* b, void* result, ThreadPool& pool, std::byte* scratch) const = 0;
};

// result[..., m, n] = a[..., m, k] * b[..., k, n]; batch dimensions of 1 are repeated. `threads` is the most that will
// run it. Null where oneDNN has no fast implementation.
std::unique_ptr<OneDnnProblem> MakeOneDnnMatmul(const TensorView& a, const TensorView& b, const TensorView& result,
                                                int threads);

struct ConvolutionWindow {
  Dims strides, dilations, padding_low, padding_high;  // dilations as HLO counts them: 1 is dense
  int64_t groups = 1;
};
// input [batch, channels, spatial...], kernel [output channels, input channels of a group, spatial...], result [batch,
// output channels, spatial...].
std::unique_ptr<OneDnnProblem> MakeOneDnnConvolution(const TensorView& input, const TensorView& kernel,
                                                     const TensorView& result, const ConvolutionWindow& window, int threads);

}  // namespace krafla::cpu
