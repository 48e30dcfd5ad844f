// SPDX-License-Identifier: Apache-2.0
// Division of integers by one number as a multiplication.
#pragma once

#include <bit>
#include <cstdint>

namespace krafla {

// floor(x / divisor) = x * ceil(2^s / divisor) >> s for 0 <= x <= 2^31, with s = 31 + ceil(log2(divisor)): the error of
// the factor is below 2^(s - 31) / divisor, so x times it is below one divisor-th. divisor: 1 to 2^31.
struct Reciprocal {
  uint64_t factor;
  int shift;
  explicit Reciprocal(uint64_t divisor)
      : factor(((uint64_t{1} << ShiftFor(divisor)) + divisor - 1) / divisor), shift(ShiftFor(divisor)) {}
  uint32_t Divide(uint32_t x) const { return static_cast<uint32_t>((x * factor) >> shift); }

 private:
  static int ShiftFor(uint64_t divisor) { return 31 + std::bit_width(divisor - 1); }
};

}  // namespace krafla
