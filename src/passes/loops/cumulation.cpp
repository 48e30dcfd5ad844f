// SPDX-License-Identifier: Apache-2.0
#include "passes/loops/cumulation.h"

namespace krafla {

std::optional<Cumulation> FindCumulation(const Instruction& i) {
  const Window& window = i.attr<WindowAttributes>().window;
  std::optional<Cumulation> out;
  for (std::size_t d = 0; d < window.size(); ++d) {
    const WindowDim& w = window[d];
    if (w.stride != 1 || w.window_dilation != 1 || w.base_dilation != 1 || w.reversal) return std::nullopt;
    if (w.size == 1 && w.padding_low == 0 && w.padding_high == 0) continue;
    int64_t n = i.operand(0)->shape().dims()[d];
    if (out || w.size != n || n < 2) return std::nullopt;
    if (w.padding_low == n - 1 && w.padding_high == 0) out = Cumulation{d, false};
    else if (w.padding_low == 0 && w.padding_high == n - 1) out = Cumulation{d, true};
    else return std::nullopt;
  }
  return out;
}

}  // namespace krafla
