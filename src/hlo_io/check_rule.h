// SPDX-License-Identifier: Apache-2.0
// What an operation of StableHLO's dialect `check` asks of two values.
#pragma once

#include <cstdint>
#include <string>

namespace krafla {

// How two values are compared (stablehlo/tests/CheckOps.cpp).
struct CheckRule {
  // kEqual: as numbers, so that -0 is 0 and NaN is not NaN. kAlmost: within `tolerance`, or both NaN. kClose: between
  // min_ulp and max_ulp numbers apart; an infinity and another number, or NaN and a number, are 2^64 - 1 apart.
  enum class Kind : uint8_t { kEqual, kAlmost, kClose } kind = Kind::kEqual;
  double tolerance = 0;
  uint64_t min_ulp = 0, max_ulp = 0;
  std::string place;  // "add.mlir:8:3"
};

}  // namespace krafla
