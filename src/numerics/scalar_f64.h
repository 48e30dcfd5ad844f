// SPDX-License-Identifier: Apache-2.0
// HLO's elementwise operations on one double, with the GPU's bits where they are formulas.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "numerics/f64_formulas.h"

namespace krafla::scalar {

#define KRAFLA_SCALAR_F64_1(Function) \
  inline double Function(double x) { return f64::Function(ScalarF64Ops{}, x); }
#define KRAFLA_SCALAR_F64_2(Function) \
  inline double Function(double x, double y) { return f64::Function(ScalarF64Ops{}, x, y); }
#define KRAFLA_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) KRAFLA_SCALAR_F64_##arity(Function)
#include "ir/ops.def"
#undef KRAFLA_SCALAR_F64_1
#undef KRAFLA_SCALAR_F64_2

inline double Abs(double x) { return std::fabs(x); }
inline double Remainder(double x, double y) { return f64::Remainder(ScalarF64Ops{}, x, y); }
inline bool IsFinite(double x) { return std::isfinite(x); }

// NaN wins over a number; +0 is greater than -0.
inline double Max(double x, double y) {
  if (x != x || y != y) return x != x ? x : y;
  if (x == y) return std::bit_cast<double>(std::bit_cast<uint64_t>(x) & std::bit_cast<uint64_t>(y));
  return x > y ? x : y;
}
inline double Min(double x, double y) {
  if (x != x || y != y) return x != x ? x : y;
  if (x == y) return std::bit_cast<double>(std::bit_cast<uint64_t>(x) | std::bit_cast<uint64_t>(y));
  return x < y ? x : y;
}
inline double Clamp(double low, double x, double high) { return Min(Max(low, x), high); }
inline double Sign(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }
inline double Floor(double x) { return std::floor(x); }
inline double Ceil(double x) { return std::ceil(x); }
inline double Trunc(double x) { return std::trunc(x); }
inline double RoundNearestEven(double x) { return std::nearbyint(x); }
inline double RoundNearestAfz(double x) { return std::round(x); }

// Truncates, saturates, NaN -> 0. `bits` is the width of the integer type, which may be less than T's.
template <class T>
T FloatToInteger(double x, int bits = static_cast<int>(sizeof(T)) * 8) {
  constexpr int kSign = std::is_signed_v<T> ? 1 : 0;
  const T top = static_cast<T>(std::numeric_limits<T>::max() >> (static_cast<int>(sizeof(T)) * 8 - bits));
  const double limit = std::ldexp(1.0, bits - kSign);  // the first that does not fit
  if (x != x) return 0;
  if (x >= limit) return top;
  if (kSign == 0) return x > 0 ? static_cast<T>(x) : T{0};
  if (x <= -limit) return static_cast<T>(-top - 1);
  return static_cast<T>(x);
}

}  // namespace krafla::scalar
