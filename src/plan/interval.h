// SPDX-License-Identifier: Apache-2.0
// Closed ranges of integers. Sums and products that do not fit 64 bits saturate, so that a range always holds every
// value that there may be.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace krafla::plan {

struct Interval {
  int64_t lo = std::numeric_limits<int64_t>::min();
  int64_t hi = std::numeric_limits<int64_t>::max();

  bool Contains(int64_t v) const { return lo <= v && v <= hi; }
  bool Within(const Interval& other) const { return other.lo <= lo && hi <= other.hi; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

inline int64_t SaturatedAdd(int64_t a, int64_t b) {
  int64_t out;
  if (!__builtin_add_overflow(a, b, &out)) return out;
  return a < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}
inline int64_t SaturatedMultiply(int64_t a, int64_t b) {
  int64_t out;
  if (!__builtin_mul_overflow(a, b, &out)) return out;
  return (a < 0) != (b < 0) ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}

inline Interval operator+(const Interval& a, const Interval& b) {
  return {SaturatedAdd(a.lo, b.lo), SaturatedAdd(a.hi, b.hi)};
}
inline Interval operator*(const Interval& a, int64_t factor) {
  const int64_t x = SaturatedMultiply(a.lo, factor), y = SaturatedMultiply(a.hi, factor);
  return {std::min(x, y), std::max(x, y)};
}
// The smallest range that holds both.
inline Interval Union(const Interval& a, const Interval& b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }

}  // namespace krafla::plan
