// SPDX-License-Identifier: Apache-2.0
// HLO's elementwise operations on one double, with the GPU's bits where they are formulas.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "numerics/f64_special.h"
#include "numerics/f64_trig.h"

namespace krafla::scalar {

inline double Abs(double x) { return std::fabs(x); }
inline double Exp(double x) { return f64::Exp(ScalarF64Ops{}, x); }
inline double Expm1(double x) { return f64::Expm1(ScalarF64Ops{}, x); }
inline double Log(double x) { return f64::Log(ScalarF64Ops{}, x); }
inline double Log1p(double x) { return f64::Log1p(ScalarF64Ops{}, x); }
inline double Logistic(double x) { return f64::Logistic(ScalarF64Ops{}, x); }
inline double Sin(double x) { return f64::Sin(ScalarF64Ops{}, x); }
inline double Cos(double x) { return f64::Cos(ScalarF64Ops{}, x); }
inline double Tan(double x) { return f64::Tan(ScalarF64Ops{}, x); }
inline double Tanh(double x) { return f64::Tanh(ScalarF64Ops{}, x); }
inline double Sinh(double x) { return f64::Sinh(ScalarF64Ops{}, x); }
inline double Cosh(double x) { return f64::Cosh(ScalarF64Ops{}, x); }
inline double Asin(double x) { return f64::Asin(ScalarF64Ops{}, x); }
inline double Acos(double x) { return f64::Acos(ScalarF64Ops{}, x); }
inline double Atan2(double y, double x) { return f64::Atan2(ScalarF64Ops{}, y, x); }
inline double Asinh(double x) { return f64::Asinh(ScalarF64Ops{}, x); }
inline double Acosh(double x) { return f64::Acosh(ScalarF64Ops{}, x); }
inline double Atanh(double x) { return f64::Atanh(ScalarF64Ops{}, x); }
inline double Cbrt(double x) { return f64::Cbrt(ScalarF64Ops{}, x); }
inline double Erf(double x) { return f64::Erf(ScalarF64Ops{}, x); }
inline double Pow(double x, double y) { return f64::Pow(ScalarF64Ops{}, x, y); }
inline double Sqrt(double x) { return std::sqrt(x); }
inline double Rsqrt(double x) { return 1.0 / std::sqrt(x); }
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
