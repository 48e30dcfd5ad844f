// SPDX-License-Identifier: Apache-2.0
// Cumulative reduce-windows: jnp.cumsum, cumprod, cummax, and their like.
#pragma once

#include <cstddef>
#include <optional>

#include "ir/module.h"

namespace krafla {

struct Cumulation {
  std::size_t dimension;
  bool reverse;
};

// Of a reduce-window whose window is as long as the array, of two elements or more, and padded on one side only.
std::optional<Cumulation> FindCumulation(const Instruction& reduce_window);

}  // namespace krafla
