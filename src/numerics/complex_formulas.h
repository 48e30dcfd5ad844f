// SPDX-License-Identifier: Apache-2.0
// HLO's complex operations, written once over real ones: with plain numbers they are the evaluator's (complex_math.h),
// with nodes of an element program they run on every device with the same bits. Robust to overflow and underflow of
// intermediate values; at infinities and NaN they follow XLA's CPU back end where it has an answer.
//
// What Ops owes, F being one real type, f32 or f64:
//   int digits()   int max_exponent()   F Const(double)
//   F Add Sub Mul Div Atan2 Pow (F, F)   F Neg Abs Sqrt Exp Expm1 Log Log1p Sin Cos Tan Tanh Sinh Cosh (F)
//   B Lt Le Gt Ge Eq Ne (F, F)       B And Or (B, B)   F Select(B, F, F)
// There is no branch: both sides of a Select are computed. The signs of zeros count, those of NaN do not.
#pragma once

#include <limits>

namespace krafla::complex_formulas {

template <class Ops>
struct Complex {
  typename Ops::F re, im;
};

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kPi = 3.14159265358979323846;

template <class Ops>
double MaxFinite(const Ops& o) {
  return o.digits() == 24 ? static_cast<double>(std::numeric_limits<float>::max()) : std::numeric_limits<double>::max();
}
template <class Ops>
double MinNormal(const Ops& o) {
  return o.digits() == 24 ? 0x1p-126 : 0x1p-1022;
}

template <class Ops>
typename Ops::B IsNan(const Ops& o, typename Ops::F x) {
  return o.Ne(x, x);
}
template <class Ops>
typename Ops::B IsInfinite(const Ops& o, typename Ops::F x) {
  return o.Eq(o.Abs(x), o.Const(kInfinity));
}
template <class Ops>
typename Ops::B IsFiniteNumber(const Ops& o, typename Ops::F x) {
  return o.Lt(o.Abs(x), o.Const(kInfinity));
}
// Of the magnitude `x` the number with the sign of `from`; a NaN counts as positive.
template <class Ops>
typename Ops::F CopySign(const Ops& o, typename Ops::F x, typename Ops::F from) {
  const auto zero = o.Const(0.0);
  const auto negative = o.Or(o.Lt(from, zero), o.Lt(o.Div(o.Const(1.0), from), zero));
  return o.Select(negative, o.Neg(x), x);
}
template <class Ops>
Complex<Ops> Select(const Ops& o, typename Ops::B c, const Complex<Ops>& x, const Complex<Ops>& y) {
  return {o.Select(c, x.re, y.re), o.Select(c, x.im, y.im)};
}

// XLA's elemental_ir_emitter.cc: bounds are compared lexicographically with >= and <= on the real part, so that the
// real parts alone decide. A NaN there takes the upper bound.
template <class Ops>
Complex<Ops> Clamp(const Ops& o, const Complex<Ops>& low, const Complex<Ops>& x, const Complex<Ops>& high) {
  const Complex<Ops> raised = Select(o, o.Ge(low.re, x.re), low, x);
  return Select(o, o.Le(raised.re, high.re), raised, high);
}

template <class Ops>
Complex<Ops> Multiply(const Ops& o, const Complex<Ops>& x, const Complex<Ops>& y) {
  return {o.Sub(o.Mul(x.re, y.re), o.Mul(x.im, y.im)), o.Add(o.Mul(x.re, y.im), o.Mul(x.im, y.re))};
}

// Smith's method: the divisor scaled by its greater part. As in XLA, zero and infinite divisors and infinite numbers
// are looked at where both parts came out as NaN only.
template <class Ops>
Complex<Ops> Divide(const Ops& o, const Complex<Ops>& x, const Complex<Ops>& y) {
  const auto a = x.re, b = x.im, c = y.re, d = y.im;
  const auto zero = o.Const(0.0), one = o.Const(1.0), inf = o.Const(kInfinity);
  const auto swap = o.Lt(o.Abs(c), o.Abs(d));
  const auto greater = o.Select(swap, d, c), lesser = o.Select(swap, c, d);
  const auto ratio = o.Div(lesser, greater);
  const auto denominator = o.Add(greater, o.Mul(lesser, ratio));
  const auto u = o.Select(swap, b, a), v = o.Select(swap, a, b);
  const auto scaled = o.Mul(u, ratio);
  const Complex<Ops> plain{o.Div(o.Add(u, o.Mul(v, ratio)), denominator),
                           o.Div(o.Sub(o.Select(swap, scaled, v), o.Select(swap, v, scaled)), denominator)};
  const auto x_infinite = o.Or(IsInfinite(o, a), IsInfinite(o, b)),
             y_infinite = o.Or(IsInfinite(o, c), IsInfinite(o, d));
  const auto x_finite = o.And(IsFiniteNumber(o, a), IsFiniteNumber(o, b));
  const auto y_finite = o.And(IsFiniteNumber(o, c), IsFiniteNumber(o, d));
  const auto unit = [&](typename Ops::F t) { return CopySign(o, o.Select(IsInfinite(o, t), one, zero), t); };
  const auto ua = unit(a), ub = unit(b), uc = unit(c), ud = unit(d);
  const Complex<Ops> below{o.Mul(zero, o.Add(o.Mul(a, uc), o.Mul(b, ud))),
                           o.Mul(zero, o.Sub(o.Mul(b, uc), o.Mul(a, ud)))};
  auto out = Select(o, o.And(y_infinite, x_finite), below, plain);
  const Complex<Ops> above{o.Mul(inf, o.Add(o.Mul(ua, c), o.Mul(ub, d))),
                           o.Mul(inf, o.Sub(o.Mul(ub, c), o.Mul(ua, d)))};
  out = Select(o, o.And(x_infinite, y_finite), above, out);
  const auto by_zero = o.And(o.Eq(c, zero), o.Eq(d, zero));
  const auto signed_inf = CopySign(o, inf, c);
  out = Select(o, by_zero, {o.Mul(signed_inf, a), o.Mul(signed_inf, b)}, out);
  return Select(o, o.And(IsNan(o, plain.re), IsNan(o, plain.im)), out, plain);
}

// A NaN wins over an infinity.
template <class Ops>
typename Ops::F Hypot(const Ops& o, typename Ops::F x, typename Ops::F y) {
  const auto zero = o.Const(0.0), one = o.Const(1.0), inf = o.Const(kInfinity);
  const auto a = o.Abs(x), b = o.Abs(y);
  const auto swap = o.Lt(a, b);
  const auto high = o.Select(swap, b, a), low = o.Select(swap, a, b);
  const auto ratio = o.Div(low, o.Select(o.Eq(high, zero), one, high));
  auto out = o.Mul(high, o.Sqrt(o.Add(one, o.Mul(ratio, ratio))));
  out = o.Select(o.Eq(high, zero), high, out);
  out = o.Select(o.Or(o.Eq(a, inf), o.Eq(b, inf)), inf, out);
  return o.Select(o.Or(IsNan(o, a), IsNan(o, b)), o.Add(a, b), out);
}
template <class Ops>
typename Ops::F Abs(const Ops& o, const Complex<Ops>& z) {
  return Hypot(o, z.re, z.im);
}
// z / |z|, 0 for 0.
template <class Ops>
Complex<Ops> Sign(const Ops& o, const Complex<Ops>& z) {
  const auto magnitude = Abs(o, z);
  return Select(o, o.Eq(magnitude, o.Const(0.0)), z, {o.Div(z.re, magnitude), o.Div(z.im, magnitude)});
}

// e^a {c, s} where e^a alone may overflow; not where `whole` holds.
template <class Ops>
Complex<Ops> ScaleByExp(const Ops& o, typename Ops::F a, typename Ops::F c, typename Ops::F s, typename Ops::B whole) {
  const auto near = o.Or(whole, o.Or(o.Eq(a, o.Const(kInfinity)), o.Lt(a, o.Const(o.max_exponent() / 2))));
  const auto e = o.Exp(o.Select(near, a, o.Mul(a, o.Const(0.5))));
  const auto re = o.Mul(e, c), im = o.Mul(e, s);
  return {o.Select(near, re, o.Mul(re, e)), o.Select(near, im, o.Mul(im, e))};
}
// x^2 less its rounded value p, exactly (Dekker); abs(x) is moderate.
template <class Ops>
typename Ops::F SquareError(const Ops& o, typename Ops::F x, typename Ops::F p) {
  const auto t = o.Mul(x, o.Const(o.digits() == 24 ? 0x1001p0 : 0x8000001p0));
  const auto high = o.Sub(t, o.Sub(t, x));
  const auto low = o.Sub(x, high);
  const auto cross = o.Mul(high, low);
  return o.Add(o.Add(o.Sub(o.Mul(high, high), p), o.Add(cross, cross)), o.Mul(low, low));
}
template <class Ops>
typename Ops::F LogAbs(const Ops& o, typename Ops::F x, typename Ops::F y) {
  const auto zero = o.Const(0.0), one = o.Const(1.0), half = o.Const(0.5), inf = o.Const(kInfinity);
  const auto a = o.Abs(x), b = o.Abs(y);
  const auto swap = o.Lt(a, b);
  const auto high = o.Select(swap, b, a), low = o.Select(swap, a, b);
  const auto plain = o.Or(o.Eq(high, zero), o.Or(o.Le(low, zero), IsNan(o, low)));
  const auto unit = o.And(o.Gt(high, half), o.Lt(high, o.Const(2.0)));
  // x^2 + y^2 - 1 without the cancellation: each square in two parts.
  const auto p = o.Mul(high, high), q = o.Mul(low, low);
  const auto less_one = o.Add(o.Add(o.Sub(p, one), q), o.Add(SquareError(o, high, p), SquareError(o, low, q)));
  const auto ratio = o.Div(low, o.Select(o.Eq(high, zero), one, high));
  const auto rest = o.Mul(half, o.Log1p(o.Select(unit, less_one, o.Mul(ratio, ratio))));
  const auto log = o.Log(o.Select(plain, o.Add(high, low), high));
  auto out = o.Select(plain, log, o.Select(unit, rest, o.Add(log, rest)));
  return o.Select(o.Or(o.Eq(a, inf), o.Eq(b, inf)), inf, out);
}

template <class Ops>
Complex<Ops> Exp(const Ops& o, const Complex<Ops>& z) {
  const auto real = o.Eq(z.im, o.Const(0.0));
  const auto out = ScaleByExp(o, z.re, o.Cos(z.im), o.Sin(z.im), real);
  return {out.re, o.Select(real, z.im, out.im)};
}
// Real part expm1(a) cos b + (cos b - 1) with cos b - 1 = -2 sin^2(b / 2). XLA's zeros are positive, for -0 too.
template <class Ops>
Complex<Ops> Expm1(const Ops& o, const Complex<Ops>& z) {
  const auto e = Exp(o, z);
  const auto s = o.Sin(o.Mul(z.im, o.Const(0.5)));
  const auto m = o.Expm1(z.re);
  const auto near = o.Sub(o.Mul(m, o.Cos(z.im)), o.Mul(o.Mul(o.Const(2.0), s), s));
  const auto zero = o.Const(0.0);
  const auto real = o.Eq(z.im, zero);
  const auto re = o.Select(real, m, o.Select(o.Gt(o.Abs(z.re), o.Const(8.0)), o.Sub(e.re, o.Const(1.0)), near));
  return {o.Select(o.Eq(re, zero), zero, re), o.Select(real, zero, e.im)};
}
template <class Ops>
Complex<Ops> Log(const Ops& o, const Complex<Ops>& z) {
  return {LogAbs(o, z.re, z.im), o.Atan2(z.im, z.re)};
}
// Near 0 the real part is log1p(2a + a^2 + b^2) / 2.
template <class Ops>
Complex<Ops> Log1p(const Ops& o, const Complex<Ops>& z) {
  const auto a = z.re, b = z.im;
  const auto a1 = o.Add(a, o.Const(1.0));
  const auto near = o.And(o.Lt(o.Abs(a), o.Const(4.0)), o.Lt(o.Abs(b), o.Const(4.0)));
  const auto p = o.Mul(a, a), q = o.Mul(b, b), twice = o.Add(a, a);
  const auto sum = o.Add(twice, q);
  const auto rest = o.Select(o.Gt(o.Abs(twice), q), o.Sub(q, o.Sub(sum, twice)), o.Sub(twice, o.Sub(sum, q)));
  const auto sum2 = o.Add(sum, p);
  const auto rest2 = o.Select(o.Gt(o.Abs(sum), p), o.Sub(p, o.Sub(sum2, sum)), o.Sub(sum, o.Sub(sum2, p)));
  const auto lost = o.Add(SquareError(o, a, p), SquareError(o, b, q));
  const auto s = o.Add(sum2, o.Add(o.Add(rest, rest2), lost));
  const auto close = o.Mul(o.Const(0.5), o.Log1p(s));
  return {o.Select(near, close, LogAbs(o, a1, b)), o.Atan2(b, a1)};
}

template <class Ops>
Complex<Ops> Sqrt(const Ops& o, const Complex<Ops>& z) {
  const auto zero = o.Const(0.0), one = o.Const(1.0), inf = o.Const(kInfinity);
  const auto a = z.re, b = z.im;
  // An even power of two keeps |a| + |z| and its half in range.
  const auto most = o.Const(MaxFinite(o) / 8), least = o.Const(MinNormal(o) * 64);
  const auto big = o.Or(o.Gt(o.Abs(a), most), o.Gt(o.Abs(b), most));
  const auto small = o.And(o.Lt(o.Abs(a), least), o.Lt(o.Abs(b), least));
  const bool wide = o.digits() != 24;
  const auto up = o.Const(wide ? 0x1p60 : 0x1p32), down = o.Const(wide ? 0x1p-30 : 0x1p-16);
  const auto factor = o.Select(big, o.Const(0.0625), o.Select(small, up, one));
  const auto scale = o.Select(big, o.Const(4.0), o.Select(small, down, one));
  const auto x = o.Mul(a, factor), y = o.Mul(b, factor);
  const auto t = o.Sqrt(o.Mul(o.Add(o.Abs(x), Hypot(o, x, y)), o.Const(0.5)));
  const auto other = o.Div(o.Abs(y), o.Add(t, t));
  const auto right = o.Ge(a, zero);
  const auto re = o.Mul(o.Select(right, t, other), scale), im = o.Mul(o.Select(right, other, t), scale);
  Complex<Ops> out{re, CopySign(o, im, b)};
  const auto b_nan = IsNan(o, b);
  out = Select(o, o.And(o.Eq(a, zero), o.Eq(b, zero)), {zero, b}, out);
  const Complex<Ops> left_end{o.Select(b_nan, b, zero), o.Select(b_nan, inf, CopySign(o, inf, b))};
  out = Select(o, o.Eq(a, o.Neg(inf)), left_end, out);
  out = Select(o, o.Eq(a, inf), {a, o.Select(b_nan, b, CopySign(o, zero, b))}, out);
  return Select(o, IsInfinite(o, b), {inf, b}, out);
}
// conj(sqrt z) / |z|.
template <class Ops>
Complex<Ops> Rsqrt(const Ops& o, const Complex<Ops>& z) {
  const auto zero = o.Const(0.0), inf = o.Const(kInfinity);
  const auto root = Sqrt(o, z);
  const auto magnitude = Abs(o, root);
  Complex<Ops> out{o.Div(o.Div(root.re, magnitude), magnitude), o.Div(o.Div(o.Neg(root.im), magnitude), magnitude)};
  const auto re_infinite = IsInfinite(o, z.re);
  const auto re = o.Select(re_infinite, CopySign(o, zero, z.re), zero);
  out = Select(o, o.Or(re_infinite, IsInfinite(o, z.im)), {re, o.Neg(CopySign(o, zero, z.im))}, out);
  return Select(o, o.And(o.Eq(z.re, zero), o.Eq(z.im, zero)), {inf, o.Sub(inf, inf)}, out);
}

// Kahan's formulas; far out the real part is +-1 and the imaginary part decays.
template <class Ops>
Complex<Ops> Tanh(const Ops& o, const Complex<Ops>& z) {
  const auto zero = o.Const(0.0), one = o.Const(1.0);
  const auto a = z.re, b = z.im;
  const auto far = o.Gt(o.Abs(a), o.Const(o.digits()));
  const auto e = o.Exp(o.Neg(o.Abs(a)));
  const auto turn = o.Select(IsFiniteNumber(o, b), o.Mul(o.Sin(b), o.Cos(b)), zero);
  Complex<Ops> decayed{CopySign(o, one, a), o.Mul(o.Mul(o.Mul(o.Const(4.0), turn), e), e)};
  // An angle that is none is felt anywhere but at infinity (C, annex G.6.2.6).
  const auto nan = o.Sub(o.Const(kInfinity), o.Const(kInfinity));
  const auto felt = o.Select(IsFiniteNumber(o, a), o.Select(IsFiniteNumber(o, b), zero, one), zero);
  decayed = Select(o, o.Eq(felt, one), {nan, nan}, decayed);
  const auto t = o.Tan(b);
  const auto beta = o.Add(one, o.Mul(t, t));
  const auto s = o.Sinh(o.Select(far, zero, a));
  const auto rho = o.Sqrt(o.Add(one, o.Mul(s, s)));
  const auto denominator = o.Add(one, o.Mul(o.Mul(beta, s), s));
  const Complex<Ops> near{o.Div(o.Mul(o.Mul(beta, rho), s), denominator), o.Div(t, denominator)};
  // XLA gives +0 for an angle of -0 too.
  return Select(o, o.Eq(b, zero), {o.Tanh(a), zero}, Select(o, far, decayed, near));
}
// -i tanh(iz)
template <class Ops>
Complex<Ops> Tan(const Ops& o, const Complex<Ops>& z) {
  const auto w = Tanh(o, Complex<Ops>{o.Neg(z.im), z.re});
  return {w.im, o.Neg(w.re)};
}

// {c cosh b, s sinh b} where cosh and sinh alone may overflow: by e^(|b|/2) twice. The half of the far part goes with
// the second of them, since a half of the least c or s is no normal number.
template <class Ops>
Complex<Ops> ScaleByCoshSinh(const Ops& o, typename Ops::F b, typename Ops::F c, typename Ops::F s) {
  const auto half = o.Const(0.5);
  const auto near = o.Lt(o.Abs(b), o.Const(o.max_exponent() / 2));
  const auto e = o.Exp(o.Mul(half, o.Select(near, o.Const(0.0), o.Abs(b))));
  const auto half_e = o.Mul(half, e);
  return Select(o, near, {o.Mul(c, o.Cosh(b)), o.Mul(s, o.Sinh(b))},
                {o.Mul(o.Mul(c, e), half_e), o.Mul(CopySign(o, o.Const(1.0), b), o.Mul(o.Mul(s, e), half_e))});
}
// sin a cosh b + i cos a sinh b
template <class Ops>
Complex<Ops> Sin(const Ops& o, const Complex<Ops>& z) {
  const auto sin = o.Sin(z.re), cos = o.Cos(z.re);
  return Select(o, o.Eq(z.im, o.Const(0.0)), {sin, o.Mul(cos, z.im)}, ScaleByCoshSinh(o, z.im, sin, cos));
}
// cos a cosh b - i sin a sinh b
template <class Ops>
Complex<Ops> Cos(const Ops& o, const Complex<Ops>& z) {
  const auto minus_sin = o.Neg(o.Sin(z.re)), cos = o.Cos(z.re);
  return Select(o, o.Eq(z.im, o.Const(0.0)), {cos, o.Mul(minus_sin, z.im)}, ScaleByCoshSinh(o, z.im, cos, minus_sin));
}
// -i sin(iz) and cos(iz). A real z gives a real result also where it is infinite: 0 times infinity would be NaN.
template <class Ops>
Complex<Ops> Sinh(const Ops& o, const Complex<Ops>& z) {
  const auto w = Sin(o, Complex<Ops>{o.Neg(z.im), z.re});
  return {w.im, o.Select(o.Eq(z.im, o.Const(0.0)), z.im, o.Neg(w.re))};
}
template <class Ops>
Complex<Ops> Cosh(const Ops& o, const Complex<Ops>& z) {
  const auto w = Cos(o, Complex<Ops>{o.Neg(z.im), z.re});
  // sinh(re) im, without its size.
  const auto real = o.Mul(CopySign(o, o.Const(1.0), z.re), z.im);
  return {w.re, o.Select(o.Eq(z.im, o.Const(0.0)), real, w.im)};
}

// 1 / (1 + e^-z), or e^z / (1 + e^z) on the left, so that the exponential does not overflow.
template <class Ops>
Complex<Ops> Logistic(const Ops& o, const Complex<Ops>& z) {
  const auto one = o.Const(1.0);
  const auto left = o.Lt(z.re, o.Const(0.0));
  const auto e = Exp(o, Select(o, left, z, {o.Neg(z.re), o.Neg(z.im)}));
  return Divide(o, Select(o, left, e, {one, o.Const(0.0)}), Complex<Ops>{o.Add(one, e.re), e.im});
}

// x^y = |x|^c e^(-d arg x) {cos q, sin q} with y = c + di and q = c arg x + d log|x|. The power of |x| is exp(c
// log|x|), whose error grows with the logarithm, or that of a real number, whose error does not but grows with |x|'s
// own: the latter where |x| is far from 1 and it keeps within range. XLA's specials: x^0 and 1^y are 1 whatever the
// other is, 0^y is 0 for real positive y, inf^y is inf or 0 for real y; the products decide elsewhere.
template <class Ops>
Complex<Ops> Pow(const Ops& o, const Complex<Ops>& x, const Complex<Ops>& y) {
  const auto zero = o.Const(0.0), one = o.Const(1.0), inf = o.Const(kInfinity);
  const auto c = y.re, d = y.im;
  const auto log = Log(o, x);
  const auto turned = o.Neg(o.Mul(d, log.im));
  const auto angle = o.Add(o.Mul(c, log.im), o.Mul(d, log.re));
  const auto cos = o.Cos(angle), sin = o.Sin(angle);
  const auto by_log = ScaleByExp(o, o.Add(o.Mul(c, log.re), turned), cos, sin, o.Lt(c, c));
  const auto modulus = o.Mul(o.Pow(Abs(o, x), c), o.Exp(turned));
  const auto far = o.And(o.Gt(o.Abs(log.re), o.Const(0.5)),
                         o.And(o.Ge(modulus, o.Const(MinNormal(o))), o.Le(modulus, o.Const(MaxFinite(o)))));
  auto out = Select(o, far, {o.Mul(modulus, cos), o.Mul(modulus, sin)}, by_log);
  const auto real = o.Eq(d, zero), positive = o.And(real, o.Gt(c, zero)), negative = o.And(real, o.Lt(c, zero));
  const auto axis = o.Eq(x.im, zero);
  const auto of_zero = o.Select(positive, zero, o.Sub(inf, inf));
  out = Select(o, o.And(o.Eq(x.re, zero), axis), {of_zero, of_zero}, out);
  const auto of_inf = o.And(o.Eq(x.re, inf), axis);
  out = Select(o, o.And(of_inf, positive), {inf, zero}, out);
  out = Select(o, o.And(of_inf, negative), {zero, zero}, out);
  const auto unit = o.Or(o.And(o.Eq(c, zero), real), o.And(o.Eq(x.re, one), axis));
  return Select(o, unit, {one, zero}, out);
}
// -i log((x + iy) / sqrt(x^2 + y^2))
template <class Ops>
Complex<Ops> Atan2(const Ops& o, const Complex<Ops>& y, const Complex<Ops>& x) {
  const auto zero = o.Const(0.0);
  const Complex<Ops> sum{o.Sub(x.re, y.im), o.Add(x.im, y.re)};
  const auto xx = Multiply(o, x, x), yy = Multiply(o, y, y);
  const auto log = Log(o, Divide(o, sum, Sqrt(o, Complex<Ops>{o.Add(xx.re, yy.re), o.Add(xx.im, yy.im)})));
  const auto real = o.And(o.Eq(y.im, zero), o.Eq(x.im, zero));
  return Select(o, real, {o.Atan2(y.re, x.re), zero}, {log.im, o.Neg(log.re)});
}

}  // namespace krafla::complex_formulas
