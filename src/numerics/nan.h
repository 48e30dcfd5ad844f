// SPDX-License-Identifier: Apache-2.0
// The NaN that arithmetic gives, whatever the machine's own is (docs/decisions/0003-same-bits.md).
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace krafla {

inline constexpr uint32_t kNanF16 = 0x7e00u;
inline constexpr uint32_t kNanF32 = 0x7fc00000u;
inline constexpr uint64_t kNanF64 = 0x7ff8000000000000u;

template <class T>
constexpr T NanOf() {
  static_assert(std::is_floating_point_v<T>);
  if constexpr (sizeof(T) == 4) return std::bit_cast<T>(kNanF32);
  else return std::bit_cast<T>(kNanF64);
}
// A result of arithmetic: a NaN is the NaN.
template <class T>
constexpr T Settled(T x) {
  return x != x ? NanOf<T>() : x;
}
// What a conversion from `from` gave: a NaN is the quiet one of its sign, without its payload.
template <class T, class From>
constexpr T SettledConversion(T x, From from) {
  if (from == from) return x;
  const bool negative = std::bit_cast<std::conditional_t<sizeof(From) == 4, int32_t, int64_t>>(from) < 0;
  return negative ? -NanOf<T>() : NanOf<T>();
}

}  // namespace krafla
