// SPDX-License-Identifier: Apache-2.0
// The one place where the evaluator gets its elementary functions.
#pragma once

#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>

#include "numerics/formulas.h"
#include "numerics/scalar_ops.h"

namespace krafla::evaluator {

// Elementary functions of T (float or double).
template <class T>
struct Math {
  static T Acos(T x) { return std::acos(x); }
  static T Acosh(T x) { return std::acosh(x); }
  static T Asin(T x) { return std::asin(x); }
  static T Asinh(T x) { return std::asinh(x); }
  static T Atan2(T y, T x) { return std::atan2(y, x); }
  static T Atanh(T x) { return std::atanh(x); }
  static T Cbrt(T x) { return std::cbrt(x); }
  static T Cos(T x) { return std::cos(x); }
  static T Cosh(T x) { return std::cosh(x); }
  static T Erf(T x) { return std::erf(x); }
  static T Exp(T x) { return std::exp(x); }
  static T Expm1(T x) { return std::expm1(x); }
  static T Log(T x) { return std::log(x); }
  static T Log1p(T x) { return std::log1p(x); }
  static T Logistic(T x) {
    T e = std::exp(-std::abs(x));
    return x >= 0 ? 1 / (1 + e) : e / (1 + e);
  }
  static T Power(T x, T y) { return std::pow(x, y); }
  static T Remainder(T x, T y) { return std::fmod(x, y); }
  static T Rsqrt(T x) { return 1 / std::sqrt(x); }
  static T Sin(T x) { return std::sin(x); }
  static T Sinh(T x) { return std::sinh(x); }
  static T Sqrt(T x) { return std::sqrt(x); }
  static T Tan(T x) { return std::tan(x); }
  static T Tanh(T x) { return std::tanh(x); }
};

// f32 comes from the formulas that the GPU runs too, so that both give the same bits.
template <>
struct Math<float> {
  static constexpr ScalarOps kOps = {};
  static float Acos(float x) { return krafla::Acos(kOps, x); }
  static float Acosh(float x) { return krafla::Acosh(kOps, x); }
  static float Asin(float x) { return krafla::Asin(kOps, x); }
  static float Asinh(float x) { return krafla::Asinh(kOps, x); }
  static float Atan2(float y, float x) { return krafla::Atan2(kOps, y, x); }
  static float Atanh(float x) { return krafla::Atanh(kOps, x); }
  static float Cbrt(float x) { return krafla::Cbrt(kOps, x); }
  static float Cos(float x) { return krafla::Cos(kOps, x); }
  static float Cosh(float x) { return krafla::Cosh(kOps, x); }
  static float Erf(float x) { return krafla::Erf(kOps, x); }
  static float Exp(float x) { return krafla::Exp(kOps, x); }
  static float Expm1(float x) { return krafla::Expm1(kOps, x); }
  static float Log(float x) { return krafla::Log(kOps, x); }
  static float Log1p(float x) { return krafla::Log1p(kOps, x); }
  static float Logistic(float x) { return krafla::Logistic(kOps, x); }
  static float Power(float x, float y) { return krafla::Pow(kOps, x, y); }
  static float Remainder(float x, float y) { return krafla::Remainder(kOps, x, y); }
  static float Rsqrt(float x) { return krafla::Rsqrt(kOps, x); }
  static float Sin(float x) { return krafla::Sin(kOps, x); }
  static float Sinh(float x) { return krafla::Sinh(kOps, x); }
  static float Sqrt(float x) { return krafla::Sqrt(kOps, x); }
  static float Tan(float x) { return krafla::Tan(kOps, x); }
  static float Tanh(float x) { return krafla::Tanh(kOps, x); }
};

// NaN wins; -0 < +0.
template <class T>
T Maximum(T a, T b) {
  if (a != a) return a;
  if (b != b) return b;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
template <class T>
T Minimum(T a, T b) {
  if (a != a) return a;
  if (b != b) return b;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <class T>
T Sign(T x) {
  if (x != x || x == 0) return x;
  return x > 0 ? T(1) : T(-1);
}
// std::nearbyint would follow the rounding mode of the thread.
template <class T>
T RoundEven(T x) {
  T magnitude = std::abs(x);
  constexpr T kIntegers = std::numeric_limits<T>::digits == 24 ? T(8388608) : T(4503599627370496);
  if (!(magnitude < kIntegers)) return x;
  T down = std::floor(magnitude), rest = magnitude - down;
  bool odd = std::fmod(down, T(2)) != 0;
  return std::copysign(rest > T(0.5) || (rest == T(0.5) && odd) ? down + 1 : down, x);
}

// The same of complex numbers, C = std::complex<float or double>.
template <class C>
struct ComplexMath {
  using T = typename C::value_type;
  static T Abs(C z) { return std::hypot(z.real(), z.imag()); }
  static C Exp(C z) { return std::exp(z); }
  static C Expm1(C z) {
    // e**x cos y - 1 without cancellation: expm1(x) cos y - 2 sin(y/2)**2.
    T s = std::sin(z.imag() / 2), c = std::cos(z.imag());
    return {Math<T>::Expm1(z.real()) * c - 2 * s * s, Math<T>::Exp(z.real()) * std::sin(z.imag())};
  }
  static C Log(C z) { return std::log(z); }
  static C Log1p(C z) {
    T x = z.real(), y = z.imag();
    T re = std::abs(x) + std::abs(y) < T(0.5) ? std::log1p(x * (2 + x) + y * y) / 2 : std::log(std::hypot(1 + x, y));
    return {re, std::atan2(y, 1 + x)};
  }
  static C Sqrt(C z) { return std::sqrt(z); }
  static C Rsqrt(C z) { return C(1) / std::sqrt(z); }
  static C Sin(C z) { return std::sin(z); }
  static C Cos(C z) { return std::cos(z); }
  static C Tan(C z) { return std::tan(z); }
  static C Tanh(C z) { return std::tanh(z); }
  static C Sinh(C z) { return std::sinh(z); }
  static C Cosh(C z) { return std::cosh(z); }
  static C Asin(C z) { return std::asin(z); }
  static C Acos(C z) { return std::acos(z); }
  static C Asinh(C z) { return std::asinh(z); }
  static C Acosh(C z) { return std::acosh(z); }
  static C Atanh(C z) { return std::atanh(z); }
  static C Logistic(C z) { return C(1) / (C(1) + std::exp(-z)); }
  static C Power(C x, C y) { return std::pow(x, y); }
  static C Atan2(C y, C x) {
    // -i log((x + i y) / sqrt(x**2 + y**2))
    C i(0, 1);
    return -i * std::log((x + i * y) / std::sqrt(x * x + y * y));
  }
  static C Divide(C a, C b) { return a / b; }
  static C Multiply(C a, C b) {
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  }
  static C Sign(C z) {
    T a = Abs(z);
    if (a == 0) return C(0);
    if (a != a) return {a, a};
    return {z.real() / a, z.imag() / a};
  }
};

}  // namespace krafla::evaluator
