// SPDX-License-Identifier: Apache-2.0
// HLO's complex operations on std::complex<T>, T float or double. Robust to overflow and underflow of intermediate
// values; at infinities and NaN they follow XLA's CPU back end where it has an answer. The operators of std::complex
// are not used: their product and quotient differ from XLA's for infinities.
#pragma once

#include <cmath>
#include <complex>
#include <limits>

#include "numerics/scalar_math.h"

namespace krafla {

template <class T>
std::complex<T> ComplexMultiply(std::complex<T> x, std::complex<T> y) {
  return {x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real()};
}

// Smith's method: the divisor scaled by its greater part.
template <class T>
std::complex<T> ComplexDivide(std::complex<T> x, std::complex<T> y) {
  const T a = x.real(), b = x.imag(), c = y.real(), d = y.imag();
  const T inf = std::numeric_limits<T>::infinity();
  if (c == 0 && d == 0) return {std::copysign(inf, c) * a, std::copysign(inf, c) * b};
  const bool x_infinite = std::isinf(a) || std::isinf(b);
  const bool y_infinite = std::isinf(c) || std::isinf(d);
  if (x_infinite && std::isfinite(c) && std::isfinite(d)) {
    const T u = std::copysign(std::isinf(a) ? T{1} : T{0}, a), v = std::copysign(std::isinf(b) ? T{1} : T{0}, b);
    return {inf * (u * c + v * d), inf * (v * c - u * d)};
  }
  if (y_infinite && std::isfinite(a) && std::isfinite(b)) {
    const T u = std::copysign(std::isinf(c) ? T{1} : T{0}, c), v = std::copysign(std::isinf(d) ? T{1} : T{0}, d);
    return {T{0} * (a * u + b * v), T{0} * (b * u - a * v)};
  }
  if (std::abs(c) >= std::abs(d)) {
    const T ratio = d / c, denominator = c + d * ratio;
    return {(a + b * ratio) / denominator, (b - a * ratio) / denominator};
  }
  const T ratio = c / d, denominator = c * ratio + d;
  return {(a * ratio + b) / denominator, (b * ratio - a) / denominator};
}

template <class T>
T ComplexAbs(std::complex<T> z) {
  const T a = std::abs(z.real()), b = std::abs(z.imag());
  if (a != a || b != b) return a + b;  // also for a NaN beside an infinity
  if (std::isinf(a) || std::isinf(b)) return std::numeric_limits<T>::infinity();
  const T high = a < b ? b : a, low = a < b ? a : b;
  if (high == 0) return high;
  const T ratio = low / high;
  return high * scalar::Sqrt(1 + ratio * ratio);
}

// z / |z|, 0 for 0.
template <class T>
std::complex<T> ComplexSign(std::complex<T> z) {
  const T magnitude = ComplexAbs(z);
  if (magnitude == 0) return z;
  return {z.real() / magnitude, z.imag() / magnitude};
}

namespace complex_internal {

// e^a {c, s} where e^a alone may overflow.
template <class T>
std::complex<T> ScaleByExp(T a, T c, T s) {
  if (a == std::numeric_limits<T>::infinity() || a < std::numeric_limits<T>::max_exponent / 2) {
    const T e = scalar::Exp(a);
    return {e * c, e * s};
  }
  const T half = scalar::Exp(a / 2);
  return {half * c * half, half * s * half};
}

// x^2 + y^2 - 1 without the cancellation: each square in two parts.
template <class T>
T NormLessOne(T high, T low) {
  const T p = high * high, q = low * low;
  return ((p - 1) + q) + (std::fma(high, high, -p) + std::fma(low, low, -q));
}

template <class T>
T LogAbs(T x, T y) {
  const T a = std::abs(x), b = std::abs(y);
  const T high = a < b ? b : a, low = a < b ? a : b;
  if (std::isinf(high) || std::isinf(low)) return std::numeric_limits<T>::infinity();
  if (high == 0 || !(low > 0)) return scalar::Log(high + low);
  if (high > T(0.5) && high < T(2)) return T(0.5) * scalar::Log1p(NormLessOne(high, low));
  const T ratio = low / high;
  return scalar::Log(high) + T(0.5) * scalar::Log1p(ratio * ratio);
}

}  // namespace complex_internal

template <class T>
std::complex<T> ComplexExp(std::complex<T> z) {
  const T a = z.real(), b = z.imag();
  if (b == 0) return {scalar::Exp(a), b};
  return complex_internal::ScaleByExp(a, scalar::Cos(b), scalar::Sin(b));
}

// Real part expm1(a) cos b + (cos b - 1) with cos b - 1 = -2 sin^2(b / 2).
template <class T>
std::complex<T> ComplexExpm1(std::complex<T> z) {
  const T a = z.real(), b = z.imag();
  if (b == 0) return {scalar::Expm1(a), b};
  if (std::abs(a) > T(8)) {
    const std::complex<T> e = ComplexExp(z);
    return {e.real() - 1, e.imag()};
  }
  const T s = scalar::Sin(b / 2);
  return {scalar::Expm1(a) * scalar::Cos(b) - 2 * s * s, scalar::Exp(a) * scalar::Sin(b)};
}

template <class T>
std::complex<T> ComplexLog(std::complex<T> z) {
  return {complex_internal::LogAbs(z.real(), z.imag()), scalar::Atan2(z.imag(), z.real())};
}

// Near 0 the real part is log1p(2a + a^2 + b^2) / 2.
template <class T>
std::complex<T> ComplexLog1p(std::complex<T> z) {
  const T a = z.real(), b = z.imag();
  const T angle = scalar::Atan2(b, a + 1);
  if (!(std::abs(a) < T(4) && std::abs(b) < T(4))) return {complex_internal::LogAbs(a + 1, b), angle};
  const T p = a * a, q = b * b;
  const T twice = 2 * a;
  const T sum = twice + q;
  const T rest = std::abs(twice) > q ? q - (sum - twice) : twice - (sum - q);
  const T sum2 = sum + p;
  const T rest2 = std::abs(sum) > p ? p - (sum2 - sum) : sum - (sum2 - p);
  const T s = sum2 + (rest + rest2 + std::fma(a, a, -p) + std::fma(b, b, -q));
  return {T(0.5) * scalar::Log1p(s), angle};
}

template <class T>
std::complex<T> ComplexSqrt(std::complex<T> z) {
  const T inf = std::numeric_limits<T>::infinity();
  T a = z.real(), b = z.imag();
  if (std::isinf(b)) return {inf, b};
  if (a == inf) return {a, b == b ? std::copysign(T{0}, b) : b};
  if (a == -inf) return b == b ? std::complex<T>{T{0}, std::copysign(inf, b)} : std::complex<T>{b, inf};
  if (a == 0 && b == 0) return {0, b};
  // An even power of two keeps |a| + |z| and its half in range.
  T scale = 1;
  if (std::abs(a) > std::numeric_limits<T>::max() / 8 || std::abs(b) > std::numeric_limits<T>::max() / 8) {
    a /= 16;
    b /= 16;
    scale = 4;
  } else if (std::abs(a) < std::numeric_limits<T>::min() * 64 && std::abs(b) < std::numeric_limits<T>::min() * 64) {
    constexpr int kUp = std::numeric_limits<T>::digits + 8 - (std::numeric_limits<T>::digits % 2);
    a = std::ldexp(a, kUp);
    b = std::ldexp(b, kUp);
    scale = std::ldexp(T{1}, -kUp / 2);
  }
  const T t = scalar::Sqrt((std::abs(a) + ComplexAbs(std::complex<T>(a, b))) / 2);
  const T other = std::abs(b) / (2 * t);
  if (a >= 0) return {t * scale, std::copysign(other * scale, b)};
  return {other * scale, std::copysign(t * scale, b)};
}

// conj(sqrt z) / |z|.
template <class T>
std::complex<T> ComplexRsqrt(std::complex<T> z) {
  const T inf = std::numeric_limits<T>::infinity();
  const T a = z.real(), b = z.imag();
  if (a == 0 && b == 0) return {inf, std::numeric_limits<T>::quiet_NaN()};
  if (std::isinf(a) || std::isinf(b)) return {0, std::copysign(T{0}, -b)};
  const std::complex<T> root = ComplexSqrt(z);
  const T magnitude = ComplexAbs(root);
  return {root.real() / magnitude / magnitude, -root.imag() / magnitude / magnitude};
}

// Kahan's formulas; far out the real part is +-1 and the imaginary part decays.
template <class T>
std::complex<T> ComplexTanh(std::complex<T> z) {
  const T a = z.real(), b = z.imag();
  if (b == 0) return {scalar::Tanh(a), b};
  if (std::abs(a) > std::numeric_limits<T>::digits) {
    const T e = scalar::Exp(-std::abs(a));
    const T s = std::isfinite(b) ? scalar::Sin(b) * scalar::Cos(b) : T{0};
    return {std::copysign(T{1}, a), 4 * s * e * e};
  }
  const T t = scalar::Tan(b);
  const T beta = 1 + t * t;
  const T s = scalar::Sinh(a);
  const T rho = scalar::Sqrt(1 + s * s);
  if (std::isinf(t)) return {rho / s, 1 / t};
  const T denominator = 1 + beta * s * s;
  return {beta * rho * s / denominator, t / denominator};
}
// -i tanh(iz)
template <class T>
std::complex<T> ComplexTan(std::complex<T> z) {
  const std::complex<T> w = ComplexTanh(std::complex<T>(-z.imag(), z.real()));
  return {w.imag(), -w.real()};
}

namespace complex_internal {

// {c cosh b, s sinh b} where cosh and sinh alone may overflow.
template <class T>
std::complex<T> ScaleByCoshSinh(T b, T c, T s) {
  if (std::abs(b) < std::numeric_limits<T>::max_exponent / 2) return {c * scalar::Cosh(b), s * scalar::Sinh(b)};
  const std::complex<T> scaled = ScaleByExp(std::abs(b), c / 2, s / 2);
  return {scaled.real(), std::copysign(T{1}, b) * scaled.imag()};
}

}  // namespace complex_internal

// sin a cosh b + i cos a sinh b
template <class T>
std::complex<T> ComplexSin(std::complex<T> z) {
  const T a = z.real(), b = z.imag();
  if (b == 0) return {scalar::Sin(a), scalar::Cos(a) * b};
  return complex_internal::ScaleByCoshSinh(b, scalar::Sin(a), scalar::Cos(a));
}
// cos a cosh b - i sin a sinh b
template <class T>
std::complex<T> ComplexCos(std::complex<T> z) {
  const T a = z.real(), b = z.imag();
  if (b == 0) return {scalar::Cos(a), -scalar::Sin(a) * b};
  return complex_internal::ScaleByCoshSinh(b, scalar::Cos(a), -scalar::Sin(a));
}
// -i sin(iz) and cos(iz)
template <class T>
std::complex<T> ComplexSinh(std::complex<T> z) {
  const std::complex<T> w = ComplexSin(std::complex<T>(-z.imag(), z.real()));
  return {w.imag(), -w.real()};
}
template <class T>
std::complex<T> ComplexCosh(std::complex<T> z) {
  return ComplexCos(std::complex<T>(-z.imag(), z.real()));
}

// 1 / (1 + e^-z), or e^z / (1 + e^z) on the left, so that the exponential does not overflow.
template <class T>
std::complex<T> ComplexLogistic(std::complex<T> z) {
  const bool left = z.real() < 0;
  const std::complex<T> e = ComplexExp(left ? z : std::complex<T>(-z.real(), -z.imag()));
  const std::complex<T> one(1, 0);
  return ComplexDivide(left ? e : one, std::complex<T>(1 + e.real(), e.imag()));
}

// x^y = exp(y log x).  0^y is 0 for real positive y, 1 for y = 0, NaN otherwise.
template <class T>
std::complex<T> ComplexPower(std::complex<T> x, std::complex<T> y) {
  const T c = y.real(), d = y.imag();
  if (c == 0 && d == 0) return {1, 0};
  if (x.real() == 0 && x.imag() == 0) {
    if (d == 0 && c > 0) return {0, 0};
    const T nan = std::numeric_limits<T>::quiet_NaN();
    return {nan, nan};
  }
  const std::complex<T> log = ComplexLog(x);
  const T exponent = d == 0 ? c * log.real() : c * log.real() - d * log.imag();
  const T angle = d == 0 ? c * log.imag() : c * log.imag() + d * log.real();
  return complex_internal::ScaleByExp(exponent, scalar::Cos(angle), scalar::Sin(angle));
}

// -i log((x + iy) / sqrt(x^2 + y^2))
template <class T>
std::complex<T> ComplexAtan2(std::complex<T> y, std::complex<T> x) {
  if (y.imag() == 0 && x.imag() == 0) return {scalar::Atan2(y.real(), x.real()), 0};
  const std::complex<T> sum(x.real() - y.imag(), x.imag() + y.real());
  const std::complex<T> xx = ComplexMultiply(x, x), yy = ComplexMultiply(y, y);
  const std::complex<T> root = ComplexSqrt(std::complex<T>(xx.real() + yy.real(), xx.imag() + yy.imag()));
  const std::complex<T> log = ComplexLog(ComplexDivide(sum, root));
  return {log.imag(), -log.real()};
}

template <class T>
std::complex<T> ComplexAsin(std::complex<T> z) {
  return std::asin(z);
}
template <class T>
std::complex<T> ComplexAcos(std::complex<T> z) {
  return std::acos(z);
}
template <class T>
std::complex<T> ComplexAsinh(std::complex<T> z) {
  return std::asinh(z);
}
template <class T>
std::complex<T> ComplexAcosh(std::complex<T> z) {
  return std::acosh(z);
}
template <class T>
std::complex<T> ComplexAtanh(std::complex<T> z) {
  return std::atanh(z);
}

}  // namespace krafla
