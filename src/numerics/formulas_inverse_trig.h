// SPDX-License-Identifier: Apache-2.0
// asin, acos, atan2.
#pragma once

#include "numerics/formulas_basic.h"

namespace krafla {

namespace formulas_internal {

// asin(s) - s for 0 <= s <= 1/2 with z = s^2.
template <class Ops>
typename Ops::F AsinTail(const Ops& o, typename Ops::F s, typename Ops::F z) {
  const auto p = Poly(o, z, {0x1.5555c8p-3f, 0x1.330206p-4f, 0x1.747b72p-5f, 0x1.8c415ap-6f, 0x1.5959aap-5f});
  return o.Mul(o.Mul(s, z), p);
}

}  // namespace formulas_internal

// From 1/2 on: pi/2 - 2 asin(sqrt((1 - x) / 2)). Beyond 1 the root is NaN.
template <class Ops>
typename Ops::F Asin(const Ops& o, typename Ops::F x) {
  namespace in = formulas_internal;
  const auto magnitude = o.Abs(x);
  const auto large = o.Ge(magnitude, o.Const(0.5f));
  const auto z = o.Select(large, o.Mul(o.Sub(o.Const(1.0f), magnitude), o.Const(0.5f)), o.Mul(magnitude, magnitude));
  const auto s = o.Select(large, o.Sqrt(z), magnitude);
  const auto tail = in::AsinTail(o, s, z);
  const auto half_pi = o.Const(0x1.921fb6p+0f);
  const auto twice = o.Add(s, s);
  const auto difference = o.Sub(half_pi, twice);
  const auto dropped = o.Sub(o.Sub(half_pi, difference), twice);
  const auto far = o.Sub(difference, o.Sub(o.Add(o.Add(tail, tail), o.Const(0x1.777a5cp-25f)), dropped));
  return in::WithSign(o, o.Select(large, far, o.Add(s, tail)), x);
}

template <class Ops>
typename Ops::F Acos(const Ops& o, typename Ops::F x) {
  namespace in = formulas_internal;
  const auto magnitude = o.Abs(x);
  const auto large = o.Ge(magnitude, o.Const(0.5f));
  const auto z = o.Select(large, o.Mul(o.Sub(o.Const(1.0f), magnitude), o.Const(0.5f)), o.Mul(magnitude, magnitude));
  const auto s = o.Select(large, o.Sqrt(z), magnitude);
  const auto a = o.Add(s, in::AsinTail(o, s, z));
  // pi/2 -+ a where x is small, 2a near 1, pi - 2a near -1.
  const auto signed_a = in::WithSign(o, a, x);
  const auto near_zero = o.Sub(o.Const(0x1.921fb6p+0f), o.Add(signed_a, o.Const(0x1.777a5cp-25f)));
  const auto twice = o.Add(a, a);
  const auto near_minus_one = o.Sub(o.Const(0x1.921fb6p+1f), o.Add(twice, o.Const(0x1.777a5cp-24f)));
  return o.Select(large, o.Select(o.Lt(x, o.Const(0.0f)), near_minus_one, twice), near_zero);
}

// The angle of (x, y): atan of the smaller magnitude over the greater, added to or taken from a multiple of pi/4. Where
// the quotient is above 1/2, atan(n/d) = pi/4 + atan((n - d) / (n + d)). The quotient and the sum are carried in two
// parts.
template <class Ops>
typename Ops::F Atan2(const Ops& o, typename Ops::F y, typename Ops::F x) {
  namespace in = formulas_internal;
  const auto k = [&](uint32_t value) { return o.ConstI(value); };
  const auto one = o.Const(1.0f);
  const auto zero = o.Const(0.0f);
  const auto ax = o.Abs(x);
  const auto ay = o.Abs(y);
  const auto swap = o.Gt(ay, ax);
  const auto greater = o.Select(swap, ay, ax);
  const auto lesser = o.Select(swap, ax, ay);

  // Significands in [1, 2), so that the remainder of the division cannot underflow; `scale` carries the exponents.
  const auto greater_one = o.FromBits(o.Or(o.And(o.Bits(greater), k(0x007fffffu)), k(0x3f800000u)));
  const auto lesser_one = o.FromBits(o.Or(o.And(o.Bits(lesser), k(0x007fffffu)), k(0x3f800000u)));
  const auto drop = o.ISub(o.Shr(o.Bits(greater), k(23)), o.Shr(o.Bits(lesser), k(23)));
  auto scale = o.FromBits(o.Shl(o.ISub(k(127), drop), k(23)));
  const auto vanishes = o.BOr(o.ULt(k(126), drop), o.Lt(lesser, o.Const(in::kMinNormal)));
  scale = o.Select(vanishes, zero, scale);
  const auto scaled = o.Mul(lesser_one, scale);
  const auto large = o.Ge(scaled, o.Mul(greater_one, o.Const(0.5f)));
  const auto n = o.Select(large, o.Sub(scaled, greater_one), lesser_one);  // the difference is exact
  const auto sum_d = o.Add(greater_one, scaled);
  const auto d = o.Select(large, sum_d, greater_one);
  const auto d_error = o.Select(large, o.Sub(scaled, o.Sub(sum_d, greater_one)), zero);
  scale = o.Select(large, one, scale);

  const auto quotient = o.Div(n, d);
  const auto q_hi = in::Upper12(o, quotient);
  const auto q_lo = o.Sub(quotient, q_hi);
  const auto d_hi = in::Upper12(o, d);
  const auto d_lo = o.Sub(d, d_hi);
  auto rest = o.Sub(n, o.Mul(q_hi, d_hi));
  rest = o.Sub(rest, o.Mul(q_hi, d_lo));
  rest = o.Sub(rest, o.Mul(q_lo, d_hi));
  rest = o.Sub(rest, o.Mul(q_lo, d_lo));
  rest = o.Sub(rest, o.Mul(quotient, d_error));
  const auto reciprocal =
      in::Poly(o, d, {0x1.ffd5eep+0f, -0x1.600960p+0f, 0x1.8f779ap-2f, -0x1.3f9198p-5f});  // of d in [1, 4)

  auto q = o.Mul(quotient, scale);
  // Far below 1 the quotient alone is the result, and its error would be subnormal.
  auto q_error = o.Mul(o.Mul(rest, reciprocal), o.Select(o.Lt(scale, o.Const(0x1p-60f)), zero, scale));
  // Infinities have significand 1: over one of them a number is 0, another is 1.
  const auto infinite = o.Eq(greater, o.Const(in::kInf));
  const auto both = o.BAnd(infinite, o.Eq(lesser, greater));
  q = o.Select(infinite, zero, q);
  q_error = o.Select(infinite, zero, q_error);

  const auto z = o.Mul(q, q);
  const auto p = in::Poly(o, z, {-0x1.555512p-2f, 0x1.997b16p-3f, -0x1.224b14p-3f, 0x1.a00dd4p-4f, -0x1.a4248cp-5f});
  const auto slope = o.Sub(one, z);  // about 1 / (1 + z), for an error term
  const auto low = o.Add(o.Mul(o.Mul(q, z), p), o.Mul(q_error, slope));

  // The angle in units of pi/4, and whether the rest is taken from it.
  const auto x_sign = in::SignOf(o, x);
  const auto x_negative = o.INe(x_sign, k(0));
  const auto at_small = o.Select(swap, o.Const(2.0f), o.Select(x_negative, o.Const(4.0f), zero));
  const auto at_large = o.Select(x_negative, o.Const(3.0f), one);
  const auto count = o.Select(o.BOr(both, o.BAnd(large, o.BNot(infinite))), at_large, at_small);
  const auto base = o.Mul(count, o.Const(0x1.921fb0p-1f));  // exact
  const auto base_low = o.Mul(count, o.Const(0x1.5110b4p-23f));
  const auto turn = o.Xor(o.SelectI(swap, k(in::kSignBit), k(0)), x_sign);
  const auto q_turned = o.FromBits(o.Xor(o.Bits(q), turn));
  const auto low_turned = o.FromBits(o.Xor(o.Bits(low), turn));
  const auto sum = o.Add(base, q_turned);
  const auto sum_error = o.Sub(q_turned, o.Sub(sum, base));
  const auto angle = o.Add(sum, o.Add(sum_error, o.Add(low_turned, base_low)));
  const auto result = in::WithSign(o, o.Abs(angle), y);
  const auto invalid = o.BOr(o.Ne(x, x), o.Ne(y, y));
  return o.Select(invalid, in::Nan(o), result);
}

}  // namespace krafla
