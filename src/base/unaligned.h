// SPDX-License-Identifier: Apache-2.0
// Numbers in memory of any alignment.
#pragma once

#include <cstddef>
#include <cstring>

namespace krafla {

template <typename T>
T LoadAs(const std::byte* from) {
  T out;
  std::memcpy(&out, from, sizeof(T));
  return out;
}
template <typename T>
void StoreAs(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

}  // namespace krafla
