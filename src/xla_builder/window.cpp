// SPDX-License-Identifier: Apache-2.0
// Windows and what Padding means. XLA: padding.cc MakePadding, shape_inference.cc InferWindowFromDimensions.
#include <algorithm>
#include <format>

#include "base/checked_math.h"
#include "xla_builder/impl.h"

namespace krafla::xla_builder {

Result<Window> MakeWindow(const WindowSpec& spec) {
  std::size_t rank = spec.sizes.size();
  auto check = [&](const char* what, std::size_t count) -> Result<> {
    if (count == 0 || count == rank) return {};
    return InvalidArgument("The window has {} dimensions, {} has {} entries.", rank, what, count);
  };
  KRAFLA_TRY(check("window_strides", spec.strides.size()));
  KRAFLA_TRY(check("base_dilations (lhs_dilation)", spec.base_dilations.size()));
  KRAFLA_TRY(check("window_dilations (rhs_dilation)", spec.window_dilations.size()));
  KRAFLA_TRY(check("padding", spec.padding.size()));
  Window out(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    out[i].size = spec.sizes[i];
    if (!spec.strides.empty()) out[i].stride = spec.strides[i];
    if (!spec.base_dilations.empty()) out[i].base_dilation = spec.base_dilations[i];
    if (!spec.window_dilations.empty()) out[i].window_dilation = spec.window_dilations[i];
    if (!spec.padding.empty()) {
      out[i].padding_low = spec.padding[i].first;
      out[i].padding_high = spec.padding[i].second;
    }
  }
  return out;
}

Result<std::vector<std::pair<int64_t, int64_t>>> MakePadding(std::span<const int64_t> input,
                                                             std::span<const int64_t> window,
                                                             std::span<const int64_t> strides, Padding padding) {
  if (window.size() != input.size() || strides.size() != input.size())
    return InvalidArgument(
        "There must be a window size and a stride for each of the {} dimensions; {} sizes and {} "
        "strides were given.",
        input.size(), window.size(), strides.size());
  std::vector<std::pair<int64_t, int64_t>> out(input.size());
  if (padding == Padding::kValid) return out;
  for (std::size_t i = 0; i < input.size(); ++i) {
    if (strides[i] < 1 || window[i] < 1)
      return InvalidArgument("Window sizes and strides must be at least 1; dimension {} has {} and {}.", i, window[i],
                             strides[i]);
    // The last window starts at (outputs - 1) * stride and may reach past the input.
    int64_t outputs = CeilDiv(input[i], strides[i]);
    auto reach = CheckedAdd(std::max<int64_t>(outputs - 1, 0) * strides[i], window[i]);
    if (!reach) return InvalidArgument("The window of dimension {} does not fit 63 bits.", i);
    int64_t total = std::max<int64_t>(*reach - input[i], 0);
    out[i] = {total / 2, total - total / 2};
  }
  return out;
}

}  // namespace krafla::xla_builder
