// SPDX-License-Identifier: Apache-2.0
// f64 formulas: exp, expm1, logistic, the hyperbolic functions, log, log1p and their inverses, power. Within a few ULP
// (tests/numerics). The polynomials are minimax fits on the stated intervals; the schemes are those of
// Muller et al., Handbook of Floating-Point Arithmetic.
#pragma once

#include "numerics/f64_ops.h"

namespace krafla::f64 {

// x = k ln 2 + r, abs(r) <= 0.347. `e`: e^r - 1.
template <class Ops>
struct ExpParts {
  typename Ops::F e;
  typename Ops::I k;
};
// Of the number x + low; abs(x) < 1100.
template <class Ops>
ExpParts<Ops> ReduceExp(const Ops& o, typename Ops::F x, typename Ops::F low) {
  const auto magic = o.Const(0x1.8p52);
  const auto shifted = o.Add(o.Mul(x, o.Const(0x1.71547652b82fep+0)), magic);
  const auto n = o.Sub(shifted, magic);
  const auto hi = o.Sub(x, o.Mul(n, o.Const(0x1.62e42fee00000p-1)));  // exact
  const auto lo = o.Sub(o.Mul(n, o.Const(0x1.a39ef35793c76p-33)), low);
  const auto r = o.Sub(hi, lo);
  const auto c = o.Sub(o.Sub(hi, r), lo);
  const auto p = Poly(o, r,
                      {0x1p-1, 0x1.5555555555557p-3, 0x1.5555555555558p-5, 0x1.11111111100b5p-7, 0x1.6c16c16c151c0p-10,
                       0x1.a01a01abfcdc2p-13, 0x1.a01a01ad113a8p-16, 0x1.71de01ef9c6d6p-19, 0x1.27e4cc97c8e77p-22,
                       0x1.af4e726d9072bp-26, 0x1.1f8ba7d848628p-29});
  return {o.Add(r, o.Add(o.Mul(o.Mul(r, r), p), c)), o.Low(shifted)};
}
template <class Ops>
typename Ops::F ClampExp(const Ops& o, typename Ops::F x) {
  const auto top = o.Select(o.Gt(x, o.Const(720.0)), o.Const(720.0), x);
  return o.Select(o.Lt(top, o.Const(-760.0)), o.Const(-760.0), top);
}
// e^(x + low)
template <class Ops>
typename Ops::F ExpPair(const Ops& o, typename Ops::F x, typename Ops::F low) {
  const auto parts = ReduceExp(o, ClampExp(o, x), low);
  return Scale(o, o.Add(o.Const(1.0), parts.e), parts.k);
}

template <class Ops>
typename Ops::F Exp(const Ops& o, typename Ops::F x) {
  return ExpPair(o, x, o.Const(0.0));
}

// 2^k (e^r - 1) + (2^k - 1)
template <class Ops>
typename Ops::F Expm1(const Ops& o, typename Ops::F x) {
  const auto one = o.Const(1.0);
  const auto parts = ReduceExp(o, ClampExp(o, x), o.Const(0.0));
  const auto large = o.SLt(o.ConstI(60), parts.k);
  const auto low = o.SLt(parts.k, o.ConstI(static_cast<uint32_t>(-60)));
  const auto k = o.SelectI(large, o.ConstI(60), o.SelectI(low, o.ConstI(static_cast<uint32_t>(-60)), parts.k));
  const auto t = PowerOfTwo(o, k);
  const auto near = o.Add(o.Mul(t, parts.e), o.Sub(t, one));
  const auto far = Scale(o, o.Add(one, parts.e), parts.k);
  const auto result = o.Select(large, far, near);
  return o.Select(o.Lt(o.Abs(x), o.Const(0x1p-54)), x, result);
}

// e^x - 1 where abs(x) < 45, and 2^-54 or more for its own last bits.
template <class Ops>
typename Ops::F Expm1Near(const Ops& o, typename Ops::F x) {
  const auto parts = ReduceExp(o, x, o.Const(0.0));
  const auto t = PowerOfTwo(o, parts.k);
  return o.Add(o.Mul(t, parts.e), o.Sub(t, o.Const(1.0)));
}

template <class Ops>
typename Ops::F Logistic(const Ops& o, typename Ops::F x) {
  const auto one = o.Const(1.0);
  const auto e = f64::Exp(o, o.Neg(o.Abs(x)));
  return o.Div(o.Select(o.Lt(x, o.Const(0.0)), e, one), o.Add(one, e));
}

template <class Ops>
typename Ops::F Tanh(const Ops& o, typename Ops::F x) {
  const auto one = o.Const(1.0), two = o.Const(2.0);
  const auto a = o.Abs(x);
  const auto bounded = o.Select(o.Lt(a, o.Const(22.0)), a, o.Const(22.0));  // also of NaN
  const auto large = o.Ge(bounded, one);
  const auto twice = o.Mul(two, bounded);
  const auto t = Expm1Near(o, o.Select(large, twice, o.Neg(twice)));
  const auto quotient = o.Div(o.Select(large, two, t), o.Add(t, two));
  const auto magnitude = o.Select(large, o.Sub(one, quotient), o.Abs(quotient));
  const auto result = WithSign(o, magnitude, x);
  return o.Select(o.Ne(x, x), x, o.Select(o.Lt(a, o.Const(0x1p-28)), x, result));
}

// e^a / 2 where e^a may overflow.
template <class Ops>
typename Ops::F HalfExp(const Ops& o, typename Ops::F a) {
  const auto parts = ReduceExp(o, ClampExp(o, a), o.Const(0.0));
  return Scale(o, o.Add(o.Const(1.0), parts.e), o.ISub(parts.k, o.ConstI(1)));
}

template <class Ops>
typename Ops::F Sinh(const Ops& o, typename Ops::F x) {
  const auto one = o.Const(1.0);
  const auto a = o.Abs(x);
  const auto t = Expm1Near(o, o.Select(o.Lt(a, o.Const(22.0)), a, o.Const(22.0)));
  const auto quotient = o.Div(t, o.Add(t, one));
  const auto twice = o.Select(o.Lt(a, one), o.Sub(o.Add(t, t), o.Mul(t, quotient)), o.Add(t, quotient));
  const auto magnitude = o.Select(o.Lt(a, o.Const(22.0)), o.Mul(o.Const(0.5), twice), HalfExp(o, a));
  const auto result = o.Select(o.Lt(a, o.Const(0x1p-28)), x, WithSign(o, o.Abs(magnitude), x));
  return o.Select(o.Ne(x, x), x, result);
}
template <class Ops>
typename Ops::F Cosh(const Ops& o, typename Ops::F x) {
  const auto one = o.Const(1.0), half = o.Const(0.5);
  const auto a = o.Abs(x);
  const auto bounded = o.Select(o.Lt(a, o.Const(22.0)), a, o.Const(22.0));
  const auto t = Expm1Near(o, bounded);
  const auto w = o.Add(one, t);
  const auto small = o.Add(one, o.Div(o.Mul(t, t), o.Add(w, w)));
  const auto middle = o.Add(o.Mul(half, w), o.Div(half, w));
  const auto result = o.Select(o.Lt(a, o.Const(0.5)), small, o.Select(o.Lt(a, o.Const(22.0)), middle, HalfExp(o, a)));
  return o.Select(o.Ne(x, x), x, result);
}

// x = 2^k m, sqrt(1/2) <= m < sqrt(2).
template <class Ops>
struct LogParts {
  typename Ops::F m, k;
};
template <class Ops>
LogParts<Ops> SplitLog(const Ops& o, typename Ops::F x) {
  const auto tiny = o.Lt(x, o.Const(0x1p-1022));
  const auto y = o.Select(tiny, o.Mul(x, o.Const(0x1p54)), x);
  const auto high = o.IAdd(o.High(y), o.ConstI(0x3ff00000u - 0x3fe6a09eu));
  const auto k = o.ISub(o.Shr(high, o.ConstI(20)), o.SelectI(tiny, o.ConstI(1023 + 54), o.ConstI(1023)));
  const auto m = o.Join(o.Low(y), o.IAdd(o.And(high, o.ConstI(0xfffffu)), o.ConstI(0x3fe6a09eu)));
  return {m, FromSmallInt(o, k)};
}
// (2 atanh(s) - 2 s) / s^3 as a function of w = s^2 <= 0.0295.
template <class Ops>
typename Ops::F LogSeries(const Ops& o, typename Ops::F w) {
  return Poly(o, w,
              {0x1.5555555555558p-1, 0x1.99999999951fep-2, 0x1.2492492e08013p-2, 0x1.c71c62cb0101ap-3,
               0x1.7462bba51baa2p-3, 0x1.39fd87dde0f98p-3, 0x1.2b6220cf76b04p-3});
}
// log(m) + k ln 2 + c
template <class Ops>
typename Ops::F LogOfParts(const Ops& o, const LogParts<Ops>& parts, typename Ops::F c) {
  const auto f = o.Sub(parts.m, o.Const(1.0));
  const auto half_square = o.Mul(o.Const(0.5), o.Mul(f, f));
  const auto s = o.Div(f, o.Add(o.Const(2.0), f));
  const auto w = o.Mul(s, s);
  const auto r = o.Mul(w, LogSeries(o, w));
  const auto low = o.Add(o.Mul(parts.k, o.Const(0x1.a39ef35793c76p-33)), c);
  const auto tail = o.Sub(half_square, o.Add(o.Mul(s, o.Add(half_square, r)), low));
  return o.Sub(o.Mul(parts.k, o.Const(0x1.62e42fee00000p-1)), o.Sub(tail, f));
}
// What is right for every x but those above 0: `result`.
template <class Ops>
typename Ops::F LogSpecials(const Ops& o, typename Ops::F x, typename Ops::F result) {
  auto out = o.Select(o.Eq(x, o.Const(kInf)), x, result);
  out = o.Select(o.Eq(x, o.Const(0.0)), o.Const(-kInf), out);
  out = o.Select(o.Lt(x, o.Const(0.0)), Nan(o), out);
  return o.Select(o.Ne(x, x), x, out);
}

template <class Ops>
typename Ops::F Log(const Ops& o, typename Ops::F x) {
  return LogSpecials(o, x, LogOfParts(o, SplitLog(o, x), o.Const(0.0)));
}
template <class Ops>
typename Ops::F Log1p(const Ops& o, typename Ops::F x) {
  const auto one = o.Const(1.0);
  const auto u = o.Add(one, x);
  const auto parts = SplitLog(o, u);
  // What rounding took from 1 + x.
  const auto lost = o.Select(o.Ge(u, o.Const(2.0)), o.Sub(one, o.Sub(u, x)), o.Sub(x, o.Sub(u, one)));
  const auto c = o.Select(o.Gt(o.Abs(x), o.Const(0x1p54)), o.Const(0.0), o.Div(lost, u));
  const auto result = LogSpecials(o, u, LogOfParts(o, parts, c));
  return o.Select(o.Lt(o.Abs(x), o.Const(0x1p-54)), x, result);
}

template <class Ops>
typename Ops::F Asinh(const Ops& o, typename Ops::F x) {
  const auto one = o.Const(1.0);
  const auto a = o.Abs(x);
  const auto large = o.Gt(a, o.Const(0x1p28));
  const auto b = o.Select(large, one, a);
  const auto square = o.Mul(b, b);
  const auto near = o.Add(b, o.Div(square, o.Add(one, o.Sqrt(o.Add(one, square)))));
  const auto far = o.Add(f64::Log(o, a), o.Const(0x1.62e42fefa39efp-1));
  const auto magnitude = o.Select(large, far, f64::Log1p(o, near));
  const auto result = WithSign(o, o.Abs(magnitude), x);
  return o.Select(o.Ne(x, x), x, o.Select(o.Lt(a, o.Const(0x1p-28)), x, result));
}
template <class Ops>
typename Ops::F Acosh(const Ops& o, typename Ops::F x) {
  const auto large = o.Gt(x, o.Const(0x1p28));
  const auto t = o.Sub(o.Select(large, o.Const(2.0), x), o.Const(1.0));
  const auto near = f64::Log1p(o, o.Add(t, o.Sqrt(o.Add(o.Add(t, t), o.Mul(t, t)))));
  const auto result = o.Select(large, o.Add(f64::Log(o, x), o.Const(0x1.62e42fefa39efp-1)), near);
  return o.Select(o.Lt(x, o.Const(1.0)), Nan(o), result);
}
template <class Ops>
typename Ops::F Atanh(const Ops& o, typename Ops::F x) {
  const auto one = o.Const(1.0);
  const auto a = o.Abs(x);
  const auto twice = o.Add(a, a);
  const auto rest = o.Sub(one, a);
  const auto small = o.Add(twice, o.Div(o.Mul(twice, a), rest));
  const auto argument = o.Select(o.Lt(a, o.Const(0.5)), small, o.Div(twice, rest));
  const auto result = WithSign(o, o.Abs(o.Mul(o.Const(0.5), f64::Log1p(o, argument))), x);
  const auto inside = o.Select(o.Lt(a, o.Const(0x1p-28)), x, result);
  return o.Select(o.Gt(a, one), Nan(o), o.Select(o.Ne(x, x), x, inside));
}

// log of a positive number in two parts, with some 65 bits: power multiplies its error by up to 745.
template <class Ops>
Pair<Ops> LogPair(const Ops& o, typename Ops::F x) {
  const auto parts = SplitLog(o, x);
  const auto f = o.Sub(parts.m, o.Const(1.0));
  const auto d = o.Add(o.Const(2.0), f);
  const auto d_lost = o.Sub(f, o.Sub(d, o.Const(2.0)));
  const auto s = o.Div(f, d);
  const auto product = TwoProduct(o, s, d);
  const auto rest = o.Sub(o.Sub(o.Sub(f, product.hi), product.lo), o.Mul(s, d_lost));
  const auto s_low = o.Div(rest, d);
  const auto twice_low = o.Add(s_low, s_low);
  // 2/3 s^3 in two parts, then s^5 times a polynomial in s^2.
  const auto w = TwoProduct(o, s, s);
  const auto w_low = o.Add(w.lo, o.Mul(s, twice_low));
  const auto cube = TwoProduct(o, s, w.hi);
  const auto cube_low = o.Add(cube.lo, o.Add(o.Mul(s, w_low), o.Mul(s_low, w.hi)));
  const auto two_thirds = o.Const(0x1.5555555555555p-1);
  const auto third = TwoProduct(o, cube.hi, two_thirds);
  const auto p = Poly(
      o, w.hi,
      {0x1.999999999999ap-2, 0x1.2492492492491p-2, 0x1.c71c71c71cfd8p-3, 0x1.745d1745136cep-3, 0x1.3b13b1bc6a9bcp-3,
       0x1.1110dfb07ee74p-3, 0x1.e1f7f94c18c22p-4, 0x1.ac4aa3ccbe4c2p-4, 0x1.b8d34753cc148p-4});
  const auto fifth = o.Mul(o.Mul(cube.hi, w.hi), p);
  const auto third_low =
      o.Add(o.Add(third.lo, o.Mul(cube_low, two_thirds)), o.Mul(cube.hi, o.Const(0x1.5555555555555p-55)));
  // k ln 2 + 2 s + all that; the first part of ln 2 has 33 bits.
  const auto k_hi = o.Mul(parts.k, o.Const(0x1.62e42fef00000p-1));
  const auto k_lo = o.Mul(parts.k, o.Const(0x1.473de6af278edp-34));
  const auto sum = TwoSum(o, k_hi, o.Add(s, s));
  const auto series = TwoSum(o, third.hi, fifth);
  const auto all = TwoSum(o, sum.hi, series.hi);
  const auto small = o.Add(o.Add(o.Add(sum.lo, all.lo), o.Add(series.lo, third_low)), o.Add(twice_low, k_lo));
  return FastTwoSum(o, all.hi, small);
}

// The specials are those of C's pow.
template <class Ops>
typename Ops::F Pow(const Ops& o, typename Ops::F x, typename Ops::F y) {
  const auto one = o.Const(1.0), zero = o.Const(0.0), inf = o.Const(kInf);
  const auto ax = o.Abs(x), ay = o.Abs(y);
  const auto usable = o.BAnd(o.Gt(ax, zero), o.Lt(ax, inf));
  const auto log = LogPair(o, o.Select(usable, ax, one));
  // Beyond 2^65 the result is 0, 1 or inf.
  const auto bounded = o.Select(o.Lt(ay, o.Const(0x1p65)), y, WithSign(o, o.Const(0x1p65), y));
  const auto product = TwoProduct(o, bounded, log.hi);
  auto magnitude = ExpPair(o, product.hi, o.Add(product.lo, o.Mul(bounded, log.lo)));
  // Where the exponent is out of all bounds its low part means nothing.
  magnitude = o.Select(o.Gt(product.hi, o.Const(720.0)), inf, magnitude);
  magnitude = o.Select(o.Lt(product.hi, o.Const(-760.0)), zero, magnitude);

  const auto up = o.Lt(y, zero);
  magnitude = o.Select(o.Eq(ax, zero), o.Select(up, inf, zero), magnitude);
  magnitude = o.Select(o.Eq(ax, inf), o.Select(up, zero, inf), magnitude);

  // A negative base: the exponent must be an integer, and an odd one keeps the sign. From 2^53 on all are even.
  const auto small = o.Lt(ay, o.Const(0x1p52));
  const auto shifted = o.Add(o.Select(small, ay, zero), o.Const(0x1p52));
  const auto is_integer = o.BOr(o.BNot(small), o.Eq(o.Sub(shifted, o.Const(0x1p52)), ay));
  const auto word = o.SelectI(small, o.Low(shifted), o.SelectI(o.Lt(ay, o.Const(0x1p53)), o.Low(ay), o.ConstI(0)));
  const auto odd = o.BAnd(is_integer, o.INe(o.And(word, o.ConstI(1)), o.ConstI(0)));
  auto result = o.Select(odd, WithSign(o, magnitude, x), magnitude);
  const auto invalid = o.BAnd(o.BAnd(o.Lt(x, zero), usable), o.BNot(is_integer));
  const auto nan = o.BOr(invalid, o.BOr(o.Ne(x, x), o.Ne(y, y)));
  result = o.Select(nan, Nan(o), result);
  return o.Select(o.BOr(o.Eq(x, one), o.Eq(y, zero)), one, result);
}

}  // namespace krafla::f64
