// SPDX-License-Identifier: Apache-2.0
// HLO's complex operations on std::complex<T>, T float or double: complex_formulas.h on numbers. The operators of
// std::complex are not used: their product and quotient differ from XLA's for infinities.
#pragma once

#include <complex>
#include <limits>

#include "numerics/complex_formulas.h"
#include "numerics/complex_inverse_formulas.h"
#include "numerics/scalar_math.h"

namespace krafla {

// The real operations that complex_formulas.h asks for, on numbers.
template <class T>
struct ScalarReal {
  using F = T;
  using B = bool;
  static constexpr int digits() { return std::numeric_limits<T>::digits; }
  static constexpr int max_exponent() { return std::numeric_limits<T>::max_exponent; }
  static F Const(double x) { return static_cast<T>(x); }
  static F Add(F a, F b) { return a + b; }
  static F Sub(F a, F b) { return a - b; }
  static F Mul(F a, F b) { return a * b; }
  static F Div(F a, F b) { return a / b; }
  static F Neg(F a) { return -a; }
  static F Abs(F a) { return scalar::Abs(a); }
  static F Sqrt(F a) { return scalar::Sqrt(a); }
  static F Exp(F a) { return scalar::Exp(a); }
  static F Expm1(F a) { return scalar::Expm1(a); }
  static F Log(F a) { return scalar::Log(a); }
  static F Log1p(F a) { return scalar::Log1p(a); }
  static F Sin(F a) { return scalar::Sin(a); }
  static F Cos(F a) { return scalar::Cos(a); }
  static F Tan(F a) { return scalar::Tan(a); }
  static F Tanh(F a) { return scalar::Tanh(a); }
  static F Sinh(F a) { return scalar::Sinh(a); }
  static F Cosh(F a) { return scalar::Cosh(a); }
  static F Atan2(F a, F b) { return scalar::Atan2(a, b); }
  static F Pow(F a, F b) { return scalar::Pow(a, b); }
  static B Lt(F a, F b) { return a < b; }
  static B Le(F a, F b) { return a <= b; }
  static B Gt(F a, F b) { return a > b; }
  static B Ge(F a, F b) { return a >= b; }
  static B Eq(F a, F b) { return a == b; }
  static B Ne(F a, F b) { return a != b; }
  static B And(B a, B b) { return a && b; }
  static B Or(B a, B b) { return a || b; }
  static F Select(B c, F a, F b) { return c ? a : b; }
};

namespace complex_internal {
template <class T>
complex_formulas::Complex<ScalarReal<T>> Parts(std::complex<T> z) {
  return {z.real(), z.imag()};
}
template <class T>
std::complex<T> Whole(const complex_formulas::Complex<ScalarReal<T>>& z) {
  return {z.re, z.im};
}
}  // namespace complex_internal

template <class T>
T ComplexAbs(std::complex<T> z) {
  return complex_formulas::Abs(ScalarReal<T>{}, complex_internal::Parts(z));
}
#define KRAFLA_COMPLEX_1(Function)                                                                              \
  template <class T>                                                                                            \
  std::complex<T> Complex##Function(std::complex<T> z) {                                                        \
    return complex_internal::Whole<T>(complex_formulas::Function(ScalarReal<T>{}, complex_internal::Parts(z))); \
  }
#define KRAFLA_COMPLEX_2(Function)                                                                            \
  template <class T>                                                                                          \
  std::complex<T> Complex##Function(std::complex<T> x, std::complex<T> y) {                                   \
    return complex_internal::Whole<T>(                                                                        \
        complex_formulas::Function(ScalarReal<T>{}, complex_internal::Parts(x), complex_internal::Parts(y))); \
  }
#define KRAFLA_FORMULA(...)
#define KRAFLA_COMPLEX_FORMULA(Enum, Function, cost, hlo, stablehlo, arity, ...) KRAFLA_COMPLEX_##arity(Function)
#include "ir/ops.def"
KRAFLA_COMPLEX_1(Sign)
KRAFLA_COMPLEX_2(Multiply)
KRAFLA_COMPLEX_2(Divide)
#undef KRAFLA_COMPLEX_1
#undef KRAFLA_COMPLEX_2
template <class T>
std::complex<T> ComplexClamp(std::complex<T> low, std::complex<T> x, std::complex<T> high) {
  using complex_internal::Parts;
  return complex_internal::Whole<T>(complex_formulas::Clamp(ScalarReal<T>{}, Parts(low), Parts(x), Parts(high)));
}

}  // namespace krafla
