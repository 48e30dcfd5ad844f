// SPDX-License-Identifier: Apache-2.0
// Arithmetic for anything that sizes memory: an overflow is an error, never a wrapped number.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace krafla {

inline std::optional<int64_t> CheckedMul(int64_t a, int64_t b) {
  int64_t out;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}
inline std::optional<int64_t> CheckedAdd(int64_t a, int64_t b) {
  int64_t out;
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

// For values already known to be small: b > 0.
inline int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }
inline int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }
// INT64_MAX where it is more.
inline int64_t SaturatingProduct(std::span<const int64_t> extents) {
  int64_t out = 1;
  for (int64_t e : extents) out = CheckedMul(out, e).value_or(INT64_MAX);
  return out;
}
// Of the extents of an array that there is: how many elements it has.
inline int64_t Product(std::span<const int64_t> extents) {
  int64_t out = 1;
  for (int64_t e : extents) out *= e;
  return out;
}

}  // namespace krafla
