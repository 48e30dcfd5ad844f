// SPDX-License-Identifier: Apache-2.0
// Convolutions from a channel or a few to one or two, as of signals and of filters of gray pictures: positions beside
// each other are their lanes, so they want the channels in front.
#pragma once

#include "ir/attributes.h"
#include "krafla/shape.h"

namespace krafla {

inline bool IsThin(const ConvolutionAttributes& a, const Dims& kernel) {
  constexpr int64_t kMostInputs = 4, kMostOutputs = 2;
  const auto size = [&](int64_t d) { return kernel[static_cast<std::size_t>(d)]; };
  return a.feature_group_count == 1 && a.batch_group_count == 1 && size(a.kernel_input_feature) <= kMostInputs &&
         size(a.kernel_output_feature) <= kMostOutputs;
}

}  // namespace krafla
