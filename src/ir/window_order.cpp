// SPDX-License-Identifier: Apache-2.0
#include "ir/window_order.h"

namespace krafla {

namespace {

constexpr int64_t kLargestNest = 64;  // loops around more taps than this are not split

// Whether some window's taps from the first to `last` along a dimension have to be told from padding.
bool Tests(const WindowDim& w, int64_t dim, int64_t windows, int64_t last) {
  if (last == 0) return false;  // one tap: the test does not depend on it
  if (w.base_dilation != 1) return true;
  const int64_t first_window = -w.padding_low, last_window = (windows - 1) * w.stride - w.padding_low;
  return first_window < 0 || last_window + last * w.window_dilation >= dim;
}

}  // namespace

std::optional<int64_t> DimensionVisitedLast(const Window& window, const Dims& dims, const Dims& windows) {
  int64_t taps = 1;
  for (std::size_t d = window.size(); d-- > 0 && taps < kLargestNest;) {
    const WindowDim& w = window[d];
    if (w.size <= 0 || windows[d] <= 0 || w.size > INT64_MAX / kLargestNest) return std::nullopt;
    taps *= w.size;
    if (Tests(w, dims[d], windows[d], w.size - 1) && !Tests(w, dims[d], windows[d], w.size - 2))
      return static_cast<int64_t>(d);
  }
  return std::nullopt;
}

PadAttributes PaddingOf(const Window& window) {
  PadAttributes out;
  for (const WindowDim& w : window) {
    out.low.push_back(w.padding_low);
    out.high.push_back(w.padding_high);
    out.interior.push_back(w.base_dilation - 1);
  }
  return out;
}

SliceAttributes TapSlice(const Window& window, const Dims& tap, const Dims& windows) {
  SliceAttributes out;
  for (std::size_t d = 0; d < window.size(); ++d) {
    const WindowDim& w = window[d];
    out.starts.push_back(tap[d] * w.window_dilation);
    out.limits.push_back(out.starts[d] + (windows[d] - 1) * w.stride + 1);
    out.strides.push_back(w.stride);
  }
  return out;
}

}  // namespace krafla
