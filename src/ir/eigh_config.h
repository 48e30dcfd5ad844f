// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace krafla {

// The backend_config of the custom call "Eigh" is "lower,sort,iterations,tolerance" (XLA: self_adjoint_eig.cc); without
// one the lower triangle is read.
inline bool EighReadsLower(std::string_view config) {
  const std::size_t digit = config.find_first_of("0123456789");
  return digit == std::string_view::npos || config[digit] != '0';
}

}  // namespace krafla
