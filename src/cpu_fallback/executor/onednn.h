// SPDX-License-Identifier: Apache-2.0
// oneDNN's matrix product and convolution, behind an interface that builds without it: then nothing is ever made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/inline_vector.h"
#include "ir/element_type.h"

namespace krafla::cpu {

// A view of an array: logical dimensions with strides in elements.
struct TensorView {
  Dims dims, strides;
  ElementType type = ElementType::kF32;
};

class OneDnnPrimitive {
 public:
  virtual ~OneDnnPrimitive() = default;
  // Scratch at a 64-byte boundary.
  virtual int64_t scratch_bytes() const = 0;
  // Runs on the calling thread's OpenMP team. One run at a time.
  virtual bool Run(const void* a, const void* b, void* result, std::byte* scratch) const = 0;
};

// result[..., m, n] = a[..., m, k] * b[..., k, n]; batch dimensions of 1 are repeated. Null where oneDNN has no fast
// implementation.
std::unique_ptr<OneDnnPrimitive> MakeOneDnnMatmul(const TensorView& a, const TensorView& b, const TensorView& result);

struct ConvolutionWindow {
  Dims strides, dilations, padding_low, padding_high;  // dilations as HLO counts them: 1 is dense
  int64_t groups = 1;
};
// input [batch, channels, spatial...], kernel [output channels, input channels of a group, spatial...], result [batch,
// output channels, spatial...].
std::unique_ptr<OneDnnPrimitive> MakeOneDnnConvolution(const TensorView& input, const TensorView& kernel,
                                                       const TensorView& result, const ConvolutionWindow& window);

}  // namespace krafla::cpu
