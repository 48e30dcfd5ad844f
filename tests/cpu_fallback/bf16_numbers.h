// SPDX-License-Identifier: Apache-2.0
// Numbers of bf16 and their bits, for tests that reckon what kernels must give.
#pragma once

#include <bit>
#include <cstdint>

namespace krafla::cpu {

inline float NumberOfBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
// To the nearest, to even; of finite numbers.
inline uint16_t NearestBf16(float number) {
  const auto bits = std::bit_cast<uint32_t>(number);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace krafla::cpu
