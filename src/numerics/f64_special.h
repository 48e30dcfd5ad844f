// SPDX-License-Identifier: Apache-2.0
// f64 formulas: erf, cbrt, remainder, square roots.
#pragma once

#include <array>

#include "numerics/f64_exp_log.h"

namespace krafla::f64 {

// Up to 1 a polynomial in x^2; to 6 one minus e^(-x^2) (x + 5/2)^-1 times a polynomial in (x - 5/2) / (x + 5/2).
template <class Ops>
typename Ops::F Erf(const Ops& o, typename Ops::F x) {
  const auto one = o.Const(1.0), c = o.Const(2.5);
  const auto a = o.Abs(x);
  const auto near = o.Lt(a, one);
  const auto z = o.Mul(a, a);
  const auto p = Poly(
      o, o.Select(near, z, one),
      {0x1.06eba8214db69p-3, -0x1.812746b0379e6p-2, 0x1.ce2f21a042b34p-4, -0x1.b82ce31284f38p-6, 0x1.565bcd0dbd921p-8,
       -0x1.c02db3db49762p-11, 0x1.f9a321e4b84f9p-14, -0x1.f4d1e434bc0cfp-17, 0x1.b9df305cad6f7p-20,
       -0x1.5f1f40faeea79p-23, 0x1.f7b99d7c8709ap-27, -0x1.38ac2290d3965p-30, 0x1.062759c5be8ecp-34});
  const auto small = o.Mul(a, o.Add(one, p));  // not a + a p, whose product may be subnormal
  const auto bounded = o.Select(o.Lt(a, o.Const(6.0)), a, o.Const(6.0));
  const auto d = o.Add(bounded, c);
  const auto u = o.Div(o.Sub(bounded, c), d);
  const auto q = Poly(o, u,
                      {0x1.0dd50785280a5p+0, -0x1.9bfb53c4039d7p-1, 0x1.d0cedcb8c904dp-2, -0x1.5eb8eba1dfe36p-3,
                       0x1.d0acf691f31edp-6, 0x1.1305f56584d52p-7, -0x1.3bcdce38c4787p-8, -0x1.cc8b123c80fa7p-12,
                       0x1.7069f3e19146bp-11, 0x1.e91ef7a64aa13p-15, -0x1.d84c6446b7e20p-14, -0x1.47af8214c5456p-16,
                       0x1.32153fe24277cp-16, 0x1.c4f2bb04484d6p-18, -0x1.390a5f1dd7175p-19, -0x1.047203c4e73dap-19,
                       0x1.ae38e24b3c267p-30, 0x1.a1f27a1a137bbp-22, 0x1.c3607900c0e3cp-24});
  const auto rest = o.Div(o.Mul(f64::Exp(o, o.Neg(o.Mul(bounded, bounded))), q), d);
  const auto magnitude = o.Select(near, small, o.Select(o.Lt(a, o.Const(6.0)), o.Sub(one, rest), one));
  return o.Select(o.Ne(x, x), x, WithSign(o, magnitude, x));
}

// The significand in [1, 8) with the exponent a multiple of 3 taken out; Halley's steps, the last from a root of 26
// bits whose square is exact.
template <class Ops>
typename Ops::F Cbrt(const Ops& o, typename Ops::F x) {
  const auto k = [&](uint32_t value) { return o.ConstI(value); };
  const auto a = o.Abs(x);
  const auto tiny = o.Lt(a, o.Const(0x1p-1022));
  const auto y = o.Select(tiny, o.Mul(a, o.Const(0x1p54)), a);
  // The exponent field and 3 * 1023 - 54 or 3 * 1023 more: thirds of positive numbers.
  const auto high = o.High(y);
  const auto field = o.IAdd(o.Shr(high, k(20)), o.SelectI(tiny, k(3069 - 1023 - 54), k(3069 - 1023)));
  const auto third = o.UMulHi(field, k(0x55555556u));  // field / 3 for field < 2^16
  const auto rest = o.ISub(field, o.IMul(third, k(3)));
  const auto m = o.Join(o.Low(y), o.Or(o.And(high, k(0xfffffu)), o.Shl(o.IAdd(rest, k(1023)), k(20))));
  // A line over [1, 8) through the roots of 1 and 8, then Halley's steps: each triples the digits.
  auto t = o.Add(o.Const(1.05), o.Mul(o.Sub(m, o.Const(1.0)), o.Const(0.145)));
  for (int step = 0; step < 4; ++step) {
    const auto cube = o.Mul(o.Mul(t, t), t);
    const auto n = o.Sub(m, cube);
    t = o.Add(t, o.Div(o.Mul(t, n), o.Add(o.Add(cube, cube), m)));
  }
  const auto r = Upper26(o, t);
  const auto square = o.Mul(r, r);  // exact
  const auto quotient = o.Div(m, square);
  const auto root = o.Add(r, o.Mul(r, o.Div(o.Sub(quotient, r), o.Add(o.Add(r, r), quotient))));
  const auto scaled = o.Mul(root, PowerOfTwo(o, o.ISub(third, k(1023))));
  const auto result = WithSign(o, scaled, x);
  const auto usable = o.BAnd(o.Gt(a, o.Const(0.0)), o.Lt(a, o.Const(kInf)));
  return o.Select(usable, result, x);
}

// C's fmod, by long division of the significands: the remainder is doubled and the divisor taken from it once for each
// power of two between them.
template <class Ops>
typename Ops::F Remainder(const Ops& o, typename Ops::F x, typename Ops::F y) {
  using I = typename Ops::I;
  const auto k = [&](uint32_t value) { return o.ConstI(value); };
  const auto zero = o.Const(0.0), inf = o.Const(kInf);
  const auto ax = o.Abs(x), ay = o.Abs(y);
  const auto valid = o.BAnd(o.Lt(ax, inf), o.Gt(ay, zero));
  const auto trivial = o.Lt(ax, ay);
  const auto works = o.BAnd(o.BAnd(valid, o.BNot(trivial)), o.Lt(ay, inf));
  const auto px = o.Select(works, ax, o.Const(1.0)), py = o.Select(works, ay, o.Const(1.0));
  // Subnormals are brought up by 2^54, so that every significand has its upper bit.
  const auto tiny_x = o.Lt(px, o.Const(0x1p-1022)), tiny_y = o.Lt(py, o.Const(0x1p-1022));
  const auto nx = o.Select(tiny_x, o.Mul(px, o.Const(0x1p54)), px);
  const auto ny = o.Select(tiny_y, o.Mul(py, o.Const(0x1p54)), py);
  auto exponent_of = [&](typename Ops::F v, typename Ops::B tiny) {
    return o.ISub(o.Shr(o.High(v), k(20)), o.SelectI(tiny, k(54), k(0)));
  };
  auto high_of = [&](typename Ops::F v) { return o.Or(o.And(o.High(v), k(0xfffffu)), k(0x100000u)); };
  const I y_low = o.Low(ny), y_high = high_of(ny);
  const auto less = [&](I low, I high) {  // than the divisor
    return o.BOr(o.ULt(high, y_high), o.BAnd(o.IEq(high, y_high), o.ULt(low, y_low)));
  };
  auto take = [&](I low, I high) -> std::array<I, 2> {
    const I borrow = o.SelectI(o.ULt(low, y_low), k(1), k(0));
    const auto keep = less(low, high);
    return {o.SelectI(keep, low, o.ISub(low, y_low)), o.SelectI(keep, high, o.ISub(o.ISub(high, y_high), borrow))};
  };
  const I steps = o.ISub(exponent_of(nx, tiny_x), exponent_of(ny, tiny_y));
  const auto first = take(o.Low(nx), high_of(nx));
  const auto out = o.Loop(
      2200, std::array<I, 3>{first[0], first[1], steps}, [&](const std::array<I, 3>& s) { return o.INe(s[2], k(0)); },
      [&](const std::array<I, 3>& s) -> std::array<I, 3> {
        const auto next = take(o.Shl(s[0], k(1)), o.Or(o.Shl(s[1], k(1)), o.Shr(s[0], k(31))));
        return {next[0], next[1], o.ISub(s[2], k(1))};
      });
  // words 2^(exponent - 1075), exactly: the number of the words below 2^53 times a power of two in two steps.
  const auto number = o.Add(o.Mul(o.FromIntU(out[1]), o.Const(0x1p32)), o.FromIntU(out[0]));
  const I exponent = o.ISub(exponent_of(ny, tiny_y), k(1075));
  const auto half = o.Sar(exponent, k(1));
  const auto remainder = o.Mul(o.Mul(number, PowerOfTwo(o, half)), PowerOfTwo(o, o.ISub(exponent, half)));
  const auto result = o.Select(works, WithSign(o, remainder, x), x);
  return o.Select(o.BOr(o.BNot(valid), o.Ne(y, y)), Nan(o), result);
}

// Every machine rounds a root correctly.
template <class Ops>
typename Ops::F Sqrt(const Ops& o, typename Ops::F x) {
  return o.Sqrt(x);
}
template <class Ops>
typename Ops::F Rsqrt(const Ops& o, typename Ops::F x) {
  return o.Div(o.Const(1.0), o.Sqrt(x));
}

}  // namespace krafla::f64
