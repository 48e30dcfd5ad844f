// SPDX-License-Identifier: Apache-2.0
// A convolution over views: what every kernel of convolutions is asked for.
#pragma once

#include <cstdint>
#include <span>

#include "base/checked_math.h"
#include "krafla/element_type.h"
#include "krafla/inline_vector.h"

namespace krafla::cpu {

// A view of an array: logical dimensions with strides, and where it begins, in elements.
struct TensorView {
  Dims dims, strides;
  ElementType type = ElementType::kF32;
  int64_t offset = 0;
};
// Behind the first two dimensions.
inline int64_t SpatialElements(const TensorView& view) {
  return Product(std::span<const int64_t>(view.dims).subspan(2));
}

struct ConvolutionWindow {
  Dims strides, dilations, padding_low, padding_high;  // dilations as HLO counts them: 1 is dense
  int64_t groups = 1;
};
// input [batch, channels, spatial...], kernel [output channels, input channels of a group, spatial...], result [batch,
// output channels, spatial...]. The kernel's strides may be negative.
struct ConvolutionProblem {
  TensorView input, kernel, result;
  ConvolutionWindow window;
};

}  // namespace krafla::cpu
