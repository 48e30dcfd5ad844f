// SPDX-License-Identifier: Apache-2.0
// What the f64 formulas are written for, as ops_concept.h is for f32: F is IEEE binary64, I a 32-bit word, B a truth
// value. Doubles are taken apart and put together as two words, so that no device needs 64-bit integers. The promise is
// the same: these operations in the order in which a formula performs them give the same bits on every device that
// rounds Add Sub Mul Div Sqrt to nearest even and never fuses them.
//
//   F Const(double)   I ConstI(uint32_t)
//   F Add Sub Mul Div (F, F)   F Sqrt(F)   F Neg Abs (F)      B Lt Le Gt Ge Eq Ne (F, F): Ne is true for NaN
//   I High Low (F)   F Join(I low, I high)                    F FromIntU(I): exact
//   I IAdd ISub IMul UMulHi And Or Xor Shl Shr Sar (I, I)     B IEq INe ULt ULe SLt SLe (I, I)
//   B BAnd BOr (B, B)   B BNot(B)   F Select(B, F, F)   I SelectI(B, I, I)
//   When and Loop as in ops_concept.h.
#pragma once

#include <bit>
#include <cmath>
#include <limits>

#include "numerics/scalar_ops.h"

namespace krafla {

// One CPU lane. The words' operations are ScalarOps'.
struct ScalarF64Ops : ScalarOps {
  using F = double;

  static constexpr F Const(double x) { return x; }
  static F Add(F a, F b) { return a + b; }
  static F Sub(F a, F b) { return a - b; }
  static F Mul(F a, F b) { return a * b; }
  static F Div(F a, F b) { return a / b; }
  static F Sqrt(F a) { return __builtin_sqrt(a); }
  static F Neg(F a) { return -a; }
  static F Abs(F a) { return __builtin_fabs(a); }
  static B Lt(F a, F b) { return a < b; }
  static B Le(F a, F b) { return a <= b; }
  static B Gt(F a, F b) { return a > b; }
  static B Ge(F a, F b) { return a >= b; }
  static B Eq(F a, F b) { return a == b; }
  static B Ne(F a, F b) { return a != b; }
  static F Select(B c, F a, F b) { return c ? a : b; }

  static I High(F a) { return static_cast<uint32_t>(std::bit_cast<uint64_t>(a) >> 32); }
  static I Low(F a) { return static_cast<uint32_t>(std::bit_cast<uint64_t>(a)); }
  static F Join(I low, I high) { return std::bit_cast<double>(uint64_t{high} << 32 | low); }
  static F FromIntU(I a) { return static_cast<double>(a); }
};

namespace f64 {

inline constexpr double kInf = std::numeric_limits<double>::infinity();

template <class Ops>
typename Ops::F Nan(const Ops& o) {
  return o.Join(o.ConstI(0), o.ConstI(0x7ff80000u));
}
// `x`, whose sign bit is clear, with the sign of `from`.
template <class Ops>
typename Ops::F WithSign(const Ops& o, typename Ops::F x, typename Ops::F from) {
  if constexpr (requires { o.WithSign(x, from); }) {
    return o.WithSign(x, from);  // where the words need not be taken apart
  } else {
    return o.Join(o.Low(x), o.Or(o.High(x), o.And(o.High(from), o.ConstI(0x80000000u))));
  }
}
// c[0] + x * (c[1] + x * (...)).
template <class Ops, std::size_t N>
typename Ops::F Poly(const Ops& o, typename Ops::F x, const double (&c)[N]) {
  typename Ops::F sum = o.Const(c[N - 1]);
  for (std::size_t i = N - 1; i-- > 0;) sum = o.Add(o.Mul(sum, x), o.Const(c[i]));
  return sum;
}
// 2^n for a normal result.
template <class Ops>
typename Ops::F PowerOfTwo(const Ops& o, typename Ops::I n) {
  return o.Join(o.ConstI(0), o.Shl(o.IAdd(n, o.ConstI(1023)), o.ConstI(20)));
}
// x 2^n in two steps: n may lead to a subnormal or to an infinity.
template <class Ops>
typename Ops::F ScaleInTwoSteps(const Ops& o, typename Ops::F x, typename Ops::I n) {
  const auto half = o.Sar(n, o.ConstI(1));
  return o.Mul(o.Mul(x, PowerOfTwo(o, half)), PowerOfTwo(o, o.ISub(n, half)));
}
// The first step is exact: an instruction that rounds once gives the same.
template <class Ops>
typename Ops::F Scale(const Ops& o, typename Ops::F x, typename Ops::I n) {
  if constexpr (requires { o.Scale(x, n); }) {
    return o.Scale(x, n);
  } else {
    return ScaleInTwoSteps(o, x, n);
  }
}
// A small integer held in 32 bits, as a number.
template <class Ops>
typename Ops::F FromSmallInt(const Ops& o, typename Ops::I n) {
  return o.Sub(o.FromIntU(o.IAdd(n, o.ConstI(0x10000u))), o.Const(65536.0));
}

template <class Ops>
struct Pair {
  typename Ops::F hi, lo;
};
// a + b exactly; abs(a) >= abs(b) or a = 0.
template <class Ops>
Pair<Ops> FastTwoSum(const Ops& o, typename Ops::F a, typename Ops::F b) {
  const auto s = o.Add(a, b);
  return {s, o.Sub(b, o.Sub(s, a))};
}
template <class Ops>
Pair<Ops> TwoSum(const Ops& o, typename Ops::F a, typename Ops::F b) {
  const auto s = o.Add(a, b);
  const auto t = o.Sub(s, a);
  return {s, o.Add(o.Sub(a, o.Sub(s, t)), o.Sub(b, t))};
}
// The upper 26 bits of the significand: products of two such numbers, or of one and a rest, are exact.
template <class Ops>
typename Ops::F Upper26(const Ops& o, typename Ops::F x) {
  return o.Join(o.And(o.Low(x), o.ConstI(0xf8000000u)), o.High(x));
}
// a * b exactly, where nothing underflows.
template <class Ops>
Pair<Ops> TwoProduct(const Ops& o, typename Ops::F a, typename Ops::F b) {
  const auto p = o.Mul(a, b);
  const auto ah = Upper26(o, a), bh = Upper26(o, b);
  const auto al = o.Sub(a, ah), bl = o.Sub(b, bh);
  auto e = o.Sub(o.Mul(ah, bh), p);
  e = o.Add(o.Add(e, o.Mul(ah, bl)), o.Mul(al, bh));
  return {p, o.Add(e, o.Mul(al, bl))};
}

}  // namespace f64
}  // namespace krafla
