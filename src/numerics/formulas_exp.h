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

// (1 - e) / (1 + e), e = exp(-2 abs(x)) = 2^n (1 + q): 1 - 2^n and q are exact to their last bits, so that nothing
// cancels however small x is.
template <class Ops>
typename Ops::F Tanh(const Ops& o, typename Ops::F x) {
  namespace in = formulas_internal;
  const auto one = o.Const(1.0f);
  const auto magnitude = o.Abs(x);
  // From there on it is 1.
  const auto bounded = o.Select(o.Gt(magnitude, o.Const(10.0f)), o.Const(10.0f), magnitude);
  const auto reduced = in::ReduceExp(o, o.Mul(bounded, o.Const(-2.0f)), 127);
  const auto power = in::PowerOfTwo(o, reduced.n);
  const auto rest = o.Mul(power, in::ExpMinusOneReduced(o, reduced));
  const auto quotient = o.Div(o.Sub(o.Sub(one, power), rest), o.Add(o.Add(one, power), rest));
  return in::WithSign(o, quotient, x);
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

// 1 - (1 - h / 2)^2 = h - h^2 / 4, where h = t + t P(t) is small where erf is: nothing cancels. (1 - h / 2)^2 is erfc.
template <class Ops>
typename Ops::F Erf(const Ops& o, typename Ops::F x) {
  namespace in = formulas_internal;
  const auto magnitude = o.Abs(x);
  // From there on it is 1.
  const auto t = o.Select(o.Gt(magnitude, o.Const(3.925f)), o.Const(3.925f), magnitude);
  const auto p =
      in::Poly(o, t,
               {0x1.06ebaep-3f, 0x1.45f19cp-2f, -0x1.924ee4p-3f, -0x1.614dc0p-4f, 0x1.25248ap-5f, 0x1.3cb12ep-7f,
                0x1.e0b458p-10f, -0x1.dc510ap-8f, 0x1.c5de8cp-9f, -0x1.91dbd6p-11f, 0x1.66736ap-14f, -0x1.05867ap-18f});
  // Eight times h, so that no part of it is subnormal where the result is not.
  const auto up = o.Mul(t, o.Const(8.0f));
  const auto h = o.Add(up, o.Mul(up, p));
  return in::WithSign(o, o.Sub(o.Mul(h, o.Const(0.125f)), o.Mul(o.Mul(h, h), o.Const(0x1p-8f))), x);
}

}  // namespace krafla
