// SPDX-License-Identifier: Apache-2.0
// power, cbrt, rsqrt.
#pragma once

#include "numerics/formulas_basic.h"

namespace krafla {

namespace formulas_internal {

template <class Ops>
struct FloatPair {
  typename Ops::F hi, lo;
};

// log2 of a positive normal number with a relative error below 2^-33, as hi + lo where hi has 12 bits. The
// significand m gives log2(m) = (2 / ln 2) atanh(s), s = (m - 1) / (m + 1), with s and the leading terms of the series
// carried in two parts (the scheme of Sun's e_pow.c).
template <class Ops>
FloatPair<Ops> Log2Pair(const Ops& o, typename Ops::F x) {
  const auto k = [&](uint32_t value) { return o.ConstI(value); };
  const auto one = o.Const(1.0f);
  const auto bits = o.Bits(x);
  const auto exponent = o.Sar(o.ISub(bits, k(0x3f3504f3u)), k(23));
  const auto m = o.FromBits(o.ISub(bits, o.Shl(exponent, k(23))));

  const auto f = o.Sub(m, one);
  const auto d = o.Add(m, one);
  const auto reciprocal = o.Div(one, d);
  const auto s = o.Mul(f, reciprocal);
  const auto s_hi = Upper12(o, s);
  const auto d_hi = Upper12(o, d);
  const auto d_lo = o.Sub(m, o.Sub(d_hi, one));
  const auto s_lo = o.Mul(o.Sub(o.Sub(f, o.Mul(s_hi, d_hi)), o.Mul(s_hi, d_lo)), reciprocal);

  // t = 3 + s^2 + s^4 R(s^2) = 3 atanh(s) / s
  const auto w = o.Mul(s, s);
  const auto series = o.Mul(o.Mul(w, w), Poly(o, w, {0x1.333332p-1f, 0x1.b6dd92p-2f, 0x1.54adccp-2f, 0x1.2c6ef0p-2f}));
  const auto square = o.Mul(s_hi, s_hi);
  const auto rest = o.Add(series, o.Mul(s_lo, o.Add(s_hi, s)));
  const auto t_hi = Upper12(o, o.Add(o.Const(3.0f), o.Add(square, rest)));
  const auto t_lo = o.Sub(rest, o.Sub(o.Sub(t_hi, o.Const(3.0f)), square));

  // times s, times 2 / (3 ln 2)
  const auto u = o.Mul(s_hi, t_hi);
  const auto v = o.Add(o.Mul(s_lo, t_hi), o.Mul(t_lo, s));
  const auto p_hi = Upper12(o, o.Add(u, v));
  const auto p_lo = o.Sub(v, o.Sub(p_hi, u));
  const auto z_hi = o.Mul(p_hi, o.Const(0x1.ec6p-1f));
  const auto z_lo = o.Add(o.Mul(p_hi, o.Const(0x1.09dc3ap-13f)), o.Mul(p_lo, o.Const(0x1.ec709ep-1f)));

  const auto n = o.FromIntS(exponent);
  const auto hi = Upper12(o, o.Add(o.Add(z_hi, z_lo), n));
  const auto lo = o.Sub(z_lo, o.Sub(o.Sub(hi, n), z_hi));
  return {hi, lo};
}

// 2^(hi + lo): 0 below 2^-126, inf from 2^128 on.
template <class Ops>
typename Ops::F Exp2Pair(const Ops& o, typename Ops::F hi, typename Ops::F lo) {
  const auto z = o.Add(hi, lo);
  const auto magic = o.Const(0x1.8p23f);
  const auto shifted = o.Add(z, magic);
  const auto f = o.Sub(hi, o.Sub(shifted, magic));
  const auto r = o.Add(f, lo);
  // r ln 2 = y + y_lo
  const auto r_hi = Upper12(o, r);
  const auto r_lo = o.Sub(lo, o.Sub(r_hi, f));
  const auto u = o.Mul(r_hi, o.Const(0x1.62ep-1f));
  const auto v = o.Add(o.Mul(r_lo, o.Const(0x1.62e430p-1f)), o.Mul(r_hi, o.Const(0x1.0bfbe8p-15f)));
  const auto y = o.Add(u, v);
  const auto y_lo = o.Sub(v, o.Sub(y, u));
  const auto p = Poly(o, y, {0x1.fffffcp-2f, 0x1.555492p-3f, 0x1.5558c0p-5f, 0x1.1239e0p-7f, 0x1.6a3d70p-10f});
  const auto e = o.Add(o.Add(y, o.Add(o.Mul(o.Mul(y, y), p), y_lo)), o.Const(1.0f));
  const auto bits = o.IAdd(o.Bits(e), o.Shl(o.Bits(shifted), o.ConstI(23)));
  const auto result = o.FromBits(o.SelectI(o.ULt(o.ConstI(0x7f800000u), bits), o.ConstI(0x7f800000u), bits));
  const auto low = o.Select(o.Lt(z, o.Const(-126.0f)), o.Const(0.0f), result);
  return o.Select(o.Gt(z, o.Const(128.25f)), o.Const(kInf), low);
}

}  // namespace formulas_internal

// The specials are those of C's pow: 1 for y = 0 or x = 1 whatever the other, and so on.
template <class Ops>
typename Ops::F Pow(const Ops& o, typename Ops::F x, typename Ops::F y) {
  namespace in = formulas_internal;
  const auto one = o.Const(1.0f);
  const auto zero = o.Const(0.0f);
  const auto inf = o.Const(in::kInf);
  const auto ax = o.Abs(x);
  const auto ay = o.Abs(y);

  const auto [log_hi, log_lo] = in::Log2Pair(o, ax);
  // Beyond 2^32 the result is 0, 1 or inf; the bound keeps the products finite.
  const auto bounded = o.Select(o.Lt(ay, o.Const(0x1p32f)), y, in::WithSign(o, o.Const(0x1p32f), y));
  const auto y_hi = in::Upper12(o, bounded);
  const auto lo = o.Add(o.Mul(o.Sub(bounded, y_hi), log_hi), o.Mul(bounded, log_lo));
  auto magnitude = in::Exp2Pair(o, o.Mul(y_hi, log_hi), lo);

  // A base of 0 or inf.
  const auto no_base = o.Lt(ax, o.Const(in::kMinNormal));
  const auto up = o.Lt(y, zero);
  magnitude = o.Select(no_base, o.Select(up, inf, zero), magnitude);
  magnitude = o.Select(o.Eq(ax, inf), o.Select(up, zero, inf), magnitude);

  // A negative base: the exponent must be an integer, and an odd one keeps the sign. From 2^24 on all are even.
  const auto small_y = o.Select(o.Lt(ay, o.Const(0x1p24f)), ay, o.Const(0x1p24f));
  const auto whole = o.Trunc(small_y);
  const auto is_integer = o.Eq(whole, small_y);
  const auto is_odd = o.INe(o.And(o.ToIntS(whole), o.ConstI(1)), o.ConstI(0));
  const auto sign = o.SelectI(o.BAnd(is_integer, is_odd), in::SignOf(o, x), o.ConstI(0));
  auto result = o.FromBits(o.Or(o.Bits(magnitude), sign));
  const auto finite_base = o.BAnd(o.Lt(ax, inf), o.BNot(no_base));
  const auto invalid = o.BAnd(o.BAnd(o.Lt(x, zero), finite_base), o.BNot(is_integer));
  const auto nan = o.BOr(invalid, o.BOr(o.Ne(x, x), o.Ne(y, y)));
  result = o.Select(nan, in::Nan(o), result);
  return o.Select(o.BOr(o.Eq(x, one), o.Lt(ay, o.Const(in::kMinNormal))), one, result);
}

// The significand in [1, 8) with the exponent a multiple of 3 taken out; two steps of the inverse cube root; then the
// exact rest of a 12-bit root.
template <class Ops>
typename Ops::F Cbrt(const Ops& o, typename Ops::F x) {
  namespace in = formulas_internal;
  const auto k = [&](uint32_t value) { return o.ConstI(value); };
  const auto one = o.Const(1.0f);
  const auto magnitude = o.Abs(x);
  const auto bits = o.Bits(magnitude);
  const auto field = o.ISub(o.Shr(bits, k(23)), k(1));
  const auto third = o.Shr(o.IMul(field, k(171)), k(9));  // field / 3 for field < 256
  const auto m = o.FromBits(o.IAdd(o.ISub(bits, o.Shl(o.IMul(third, k(3)), k(23))), k(126u << 23)));

  auto y = o.FromBits(o.ISub(k(0x54a2fa8eu), o.UMulHi(o.Bits(m), k(0x55555556u))));
  for (int step = 0; step < 2; ++step) {
    const auto e = o.Sub(one, o.Mul(o.Mul(m, y), o.Mul(y, y)));
    const auto correction = o.Mul(e, in::MulAdd(o, e, o.Const(0x1.c71c72p-3f), o.Const(0x1.555556p-2f)));
    y = in::MulAdd(o, y, correction, y);
  }
  const auto square = o.Mul(y, y);
  const auto root = in::Upper12(o, o.Mul(m, square));
  const auto root_square = o.Mul(root, root);  // exact
  const auto square_hi = in::Upper12(o, root_square);
  const auto square_lo = o.Sub(root_square, square_hi);
  const auto rest = o.Sub(o.Sub(m, o.Mul(square_hi, root)), o.Mul(square_lo, root));
  const auto delta = o.Mul(o.Mul(rest, square), o.Const(0x1.555556p-2f));
  const auto t = o.Add(root, o.Add(delta, o.Mul(o.Mul(delta, delta), y)));

  const auto scaled = o.FromBits(o.IAdd(o.Bits(t), o.Shl(o.ISub(third, k(42)), k(23))));
  const auto normal = o.BAnd(o.Ge(magnitude, o.Const(in::kMinNormal)), o.Lt(magnitude, o.Const(in::kInf)));
  // A subnormal counts as zero: its cube root is far from it, so that it must not be the result.
  const auto tiny = o.Lt(magnitude, o.Const(in::kMinNormal));
  return o.Select(normal, in::WithSign(o, scaled, x), o.Select(tiny, in::WithSign(o, o.Const(0.0f), x), x));
}

// y of 12 bits near 1 / sqrt(x), then the exact 1 - x y^2 and the binomial series in it.
template <class Ops>
typename Ops::F Rsqrt(const Ops& o, typename Ops::F x) {
  namespace in = formulas_internal;
  const auto one = o.Const(1.0f);
  const auto small = o.Lt(x, o.Const(0x1p-60f));
  const auto s = o.Mul(x, o.Select(small, o.Const(0x1p60f), one));

  auto y = o.FromBits(o.ISub(o.ConstI(0x5f375a86u), o.Shr(o.Bits(s), o.ConstI(1))));
  const auto half = o.Mul(s, o.Const(0.5f));
  y = o.Mul(y, o.Sub(o.Const(1.5008789f), o.Mul(o.Mul(half, y), y)));
  y = in::Upper12(o, y);
  const auto s_hi = in::Upper12(o, s);
  const auto a = o.Mul(s_hi, y);  // exact, as all products here
  const auto b = o.Mul(o.Sub(s, s_hi), y);
  const auto a_hi = in::Upper12(o, a);
  auto e = o.Sub(one, o.Mul(a_hi, y));
  e = o.Sub(e, o.Mul(o.Sub(a, a_hi), y));
  e = o.Sub(e, o.Mul(b, y));
  const auto series = in::Poly(o, e, {0.5f, 0.375f, 0.3125f});
  y = in::MulAdd(o, y, o.Mul(e, series), y);

  y = o.Mul(y, o.Select(small, o.Const(0x1p30f), one));
  y = o.Select(o.Lt(x, o.Const(in::kInf)), y, o.Select(o.Ne(x, x), x, o.Const(0.0f)));
  y = o.Select(o.Lt(x, o.Const(0.0f)), in::Nan(o), y);
  return o.Select(o.Lt(o.Abs(x), o.Const(in::kMinNormal)), in::WithSign(o, o.Const(in::kInf), x), y);
}

template <class Ops>
typename Ops::F Sqrt(const Ops& o, typename Ops::F x) {
  // A subnormal is not taken for zero by every device; the root of one is normal, so it is made zero here.
  const auto tiny = o.Lt(o.Abs(x), o.Const(formulas_internal::kMinNormal));
  const auto root = o.Sqrt(o.Select(tiny, o.Const(1.0f), x));
  return o.Select(tiny, formulas_internal::WithSign(o, o.Const(0.0f), x), root);
}

}  // namespace krafla
