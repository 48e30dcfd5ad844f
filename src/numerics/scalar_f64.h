// SPDX-License-Identifier: Apache-2.0
// HLO's elementwise operations on one double. The C library is within a few ULP of the truth here; what differs from
// XLA in the special cases is written out.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace krafla::scalar {

inline double Abs(double x) { return std::fabs(x); }
inline double Exp(double x) { return std::exp(x); }
inline double Expm1(double x) { return std::expm1(x); }
inline double Log(double x) { return std::log(x); }
inline double Log1p(double x) { return std::log1p(x); }
inline double Logistic(double x) {
  const double e = std::exp(-std::fabs(x));
  return (x < 0 ? e : 1.0) / (1.0 + e);
}
inline double Sin(double x) { return std::sin(x); }
inline double Cos(double x) { return std::cos(x); }
inline double Tan(double x) { return std::tan(x); }
inline double Tanh(double x) { return std::tanh(x); }
inline double Sinh(double x) { return std::sinh(x); }
inline double Cosh(double x) { return std::cosh(x); }
inline double Asin(double x) { return std::asin(x); }
inline double Acos(double x) { return std::acos(x); }
inline double Atan2(double y, double x) { return std::atan2(y, x); }
inline double Asinh(double x) { return std::asinh(x); }
inline double Acosh(double x) { return std::acosh(x); }
inline double Atanh(double x) { return std::atanh(x); }
inline double Cbrt(double x) { return std::cbrt(x); }
inline double Erf(double x) { return std::erf(x); }
inline double Pow(double x, double y) { return std::pow(x, y); }
inline double Sqrt(double x) { return std::sqrt(x); }
inline double Rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline double Remainder(double x, double y) { return std::fmod(x, y); }
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
