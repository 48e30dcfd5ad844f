// SPDX-License-Identifier: Apache-2.0
// exp, expm1, logistic, tanh, sinh, cosh, erf.
//
// All but erf reduce as Cody and Waite: x = n ln2 + r with abs(r) <= ln2 / 2, n ln2 in two parts of which the first is
// exact. n is rounded by adding a large number, whose low bits then hold it: no conversion, defined for every operand.
// The polynomials are minimax fits, their coefficients rounded to f32 one after the other.
#pragma once

#include "numerics/formulas_basic.h"

namespace krafla {

namespace formulas_internal {

template <class Ops>
struct ExpReduction {
  typename Ops::F r;          // high - low; NaN if x was, or was infinite
  typename Ops::F high, low;  // x - n (the first part of ln2), exact, and n (the second part)
  typename Ops::I n;          // n + bias in the low 8 bits
};
template <class Ops>
ExpReduction<Ops> ReduceExp(const Ops& o, typename Ops::F x, int bias) {
  const float magic = 0x1.8p23f + static_cast<float>(bias);
  const auto shifted = o.Add(o.Mul(x, o.Const(0x1.715476p+0f)), o.Const(magic));
  const auto n = o.Sub(shifted, o.Const(magic));
  const auto high = o.Sub(x, o.Mul(n, o.Const(0x1.62e4p-1f)));  // 15 bits, so exact
  const auto low = o.Mul(n, o.Const(0x1.7f7d1cp-20f));
  return {o.Sub(high, low), high, low, o.Bits(shifted)};
}
// 2^n, where the reduction was biased by 127 + what else is to be added to n.
template <class Ops>
typename Ops::F PowerOfTwo(const Ops& o, typename Ops::I biased) {
  return o.FromBits(o.Shl(biased, o.ConstI(23)));
}

// exp(r) - 1, abs(r) <= 0.3475, error 2^-28.2 of exp(r). The rounding of r itself touches the small terms alone.
template <class Ops>
typename Ops::F ExpMinusOneReduced(const Ops& o, const ExpReduction<Ops>& x) {
  const auto p = Poly(o, x.r, {0x1.fffffcp-2f, 0x1.555492p-3f, 0x1.5558c0p-5f, 0x1.1239e0p-7f, 0x1.6a3d70p-10f});
  return o.Add(x.high, o.Sub(o.Mul(o.Mul(x.r, x.r), p), x.low));
}

// exp(v) for v <= 0 or NaN; exactly 0 where it would be subnormal.
template <class Ops>
typename Ops::F ExpOfNegative(const Ops& o, typename Ops::F v) {
  const auto reduced = ReduceExp(o, v, 127);
  const auto y = o.Mul(o.Add(ExpMinusOneReduced(o, reduced), o.Const(1.0f)), PowerOfTwo(o, reduced.n));
  return o.Select(o.Lt(v, o.Const(-0x1.5d589ep+6f)), o.Const(0.0f), y);
}

}  // namespace formulas_internal

template <class Ops>
typename Ops::F Exp(const Ops& o, typename Ops::F x) {
  namespace in = formulas_internal;
  const auto reduced = in::ReduceExp(o, x, 0);
  const auto y = o.Add(in::ExpMinusOneReduced(o, reduced), o.Const(1.0f));
  auto result = o.FromBits(o.IAdd(o.Bits(y), o.Shl(reduced.n, o.ConstI(23))));
  result = o.Select(o.Lt(x, o.Const(-0x1.5d589ep+6f)), o.Const(0.0f), result);  // below 2^-126
  // Above the largest float, and NaN.
  return o.Select(o.Le(x, o.Const(0x1.62e42ep+6f)), result, o.Add(x, o.Const(in::kInf)));
}

template <class Ops>
typename Ops::F Expm1(const Ops& o, typename Ops::F x) {
  namespace in = formulas_internal;
  const auto reduced = in::ReduceExp(o, x, 126);
  const auto q = in::ExpMinusOneReduced(o, reduced);
  const auto half = in::PowerOfTwo(o, reduced.n);  // 2^(n-1), so that n = 128 has a float
  const auto sum = o.Add(o.Mul(q, half), o.Sub(half, o.Const(0.5f)));
  auto result = o.Select(o.IEq(o.And(reduced.n, o.ConstI(255)), o.ConstI(126)), q, o.Add(sum, sum));
  result = o.Select(o.Lt(x, o.Const(-20.0f)), o.Const(-1.0f), result);
  result = o.Select(o.Le(x, o.Const(0x1.62e42ep+6f)), result, o.Add(x, o.Const(in::kInf)));
  return o.Select(o.Lt(o.Abs(x), o.Const(0x1p-25f)), x, result);
}

// 1 / (1 + exp(-x)) as e / (1 + e) or 1 / (1 + e) with e = exp(-abs(x)) <= 1.
template <class Ops>
typename Ops::F Logistic(const Ops& o, typename Ops::F x) {
  const auto e = formulas_internal::ExpOfNegative(o, o.Neg(o.Abs(x)));
  const auto one = o.Const(1.0f);
  const auto d = o.Add(one, e);
  const auto q = o.Div(o.Select(o.Lt(x, o.Const(0.0f)), e, one), d);
  // What the rounding of d did to q, without the factor 1 / d: it matters only where d is near 1.
  const auto d_rest = o.Sub(e, o.Sub(d, one));
  return o.Sub(q, o.Mul(d_rest, q));
}

// Below 5/8: x + x^3 P(x^2). From there on: 1 - 2e / (1 + e), e = exp(-2 abs(x)).
template <class Ops>
typename Ops::F Tanh(const Ops& o, typename Ops::F x) {
  namespace in = formulas_internal;
  const auto one = o.Const(1.0f);
  const auto magnitude = o.Abs(x);
  const auto z = o.Mul(x, x);
  const auto p = in::Poly(o, z, {-0x1.555532p-2f, 0x1.1106fap-3f, -0x1.b836c8p-5f, 0x1.52041cp-6f, -0x1.754f46p-8f});
  const auto small = in::MulAdd(o, o.Mul(magnitude, z), p, magnitude);
  const auto e = in::ExpOfNegative(o, o.Mul(magnitude, o.Const(-2.0f)));
  const auto large = o.Sub(one, o.Div(o.Add(e, e), o.Add(one, e)));
  const auto result = in::WithSign(o, o.Select(o.Lt(magnitude, o.Const(0.625f)), small, large), x);
  return o.Select(o.Lt(magnitude, o.Const(0x1p-13f)), x, result);
}

namespace formulas_internal {

// With x = n ln2 + r: sinh x = A cosh r + B sinh r, cosh x = B cosh r + A sinh r, where A and B are sinh and cosh of
// n ln2, here a quarter of (2^n -+ 2^-n) so that they stay finite; the results are half.
template <class Ops>
struct HyperbolicParts {
  typename Ops::F a, b, cosh_r_less_one, sinh_r;
};
template <class Ops>
HyperbolicParts<Ops> ReduceHyperbolic(const Ops& o, typename Ops::F magnitude) {
  const auto [r, high, low, n] = ReduceExp(o, magnitude, 125);
  const auto z = o.Mul(r, r);
  const auto c = o.Mul(z, Poly(o, z, {0x1.000000p-1f, 0x1.5554e6p-5f, 0x1.6d4f54p-10f}));
  const auto s_tail = o.Mul(o.Mul(r, z), Poly(o, z, {0x1.555556p-3f, 0x1.110fdap-7f, 0x1.a2a152p-13f}));
  const auto s = o.Add(high, o.Sub(s_tail, low));
  const auto up = PowerOfTwo(o, n);                     // 2^(n-2)
  auto down = PowerOfTwo(o, o.ISub(o.ConstI(250), n));  // 2^(-n-2)
  down = o.Select(o.Lt(magnitude, o.Const(40.0f)), down, o.Const(0.0f));
  return {o.Sub(up, down), o.Add(up, down), c, s};
}

}  // namespace formulas_internal

template <class Ops>
typename Ops::F Sinh(const Ops& o, typename Ops::F x) {
  namespace in = formulas_internal;
  const auto magnitude = o.Abs(x);
  const auto [a, b, c, s] = in::ReduceHyperbolic(o, magnitude);
  const auto half = o.Add(a, o.Add(o.Mul(a, c), o.Mul(b, s)));
  auto result = in::WithSign(o, o.Add(half, half), x);
  result = o.Select(o.Le(magnitude, o.Const(89.5f)), result, o.Mul(x, o.Const(in::kInf)));
  return o.Select(o.Lt(magnitude, o.Const(0x1p-12f)), x, result);
}

template <class Ops>
typename Ops::F Cosh(const Ops& o, typename Ops::F x) {
  namespace in = formulas_internal;
  const auto magnitude = o.Abs(x);
  const auto [a, b, c, s] = in::ReduceHyperbolic(o, magnitude);
  const auto half = o.Add(b, o.Add(o.Mul(b, c), o.Mul(a, s)));
  return o.Select(o.Le(magnitude, o.Const(89.5f)), o.Add(half, half), o.Add(magnitude, o.Const(in::kInf)));
}

// Below 1: x (1 + P(x^2)). From 1 on: 1 - 2^(t Q(t)), t = min(abs(x), 4).
template <class Ops>
typename Ops::F Erf(const Ops& o, typename Ops::F x) {
  namespace in = formulas_internal;
  const auto magnitude = o.Abs(x);
  const auto z = o.Mul(magnitude, magnitude);
  const auto p = in::Poly(o, z,
                          {0x1.06eba8p-3f, -0x1.81273ep-2f, 0x1.ce2ce6p-4f, -0x1.b7f71ap-6f, 0x1.53f224p-8f,
                           -0x1.a3515ep-11f, 0x1.4771fep-14f});
  const auto small = o.Mul(magnitude, o.Add(p, o.Const(1.0f)));

  const auto t = o.Select(o.Gt(magnitude, o.Const(4.0f)), o.Const(4.0f), magnitude);
  const auto q = in::Poly(
      o, t, {-0x1.a0ca4ep+0f, -0x1.d59b06p-1f, -0x1.36e010p-3f, 0x1.0e2e7ap-5f, -0x1.2f1d74p-8f, 0x1.421070p-12f});
  const auto v = o.Mul(t, q);
  const float magic = 0x1.8p23f + 127.0f;
  const auto shifted = o.Add(v, o.Const(magic));
  const auto f = o.Sub(v, o.Sub(shifted, o.Const(magic)));
  const auto e =
      in::Poly(o, f, {1.0f, 0x1.62e42ap-1f, 0x1.ebf9c0p-3f, 0x1.c6b6d8p-5f, 0x1.3ce986p-7f, 0x1.5bdb9ap-10f});
  const auto large = o.Sub(o.Const(1.0f), o.Mul(e, in::PowerOfTwo(o, o.Bits(shifted))));

  return in::WithSign(o, o.Select(o.Lt(magnitude, o.Const(1.0f)), small, large), x);
}

}  // namespace krafla
