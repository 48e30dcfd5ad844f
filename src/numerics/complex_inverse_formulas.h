// SPDX-License-Identifier: Apache-2.0
// The inverse trigonometric and hyperbolic functions of complex numbers (see complex_formulas.h). On the
// branch cuts a part of -0 counts as XLA takes it: as positive where the sign of a result depends on it, but for atanh,
// whose imaginary part has the sign of z's up to where it is pi/2 whatever the rest is.
#pragma once

#include "numerics/complex_formulas.h"

namespace krafla::complex_formulas {

// Of the magnitude `x` the number with the sign of `from`, where -0 has none.
template <class Ops>
typename Ops::F SignOfValue(const Ops& o, typename Ops::F x, typename Ops::F from) {
  return o.Select(o.Lt(from, o.Const(0.0)), o.Neg(x), x);
}

// What asin and acos share (Hull, Fairgrieve and Tang, ACM TOMS 23, 1997). With x = |re|, y = |im|, the distances
// r, s of z to -1 and 1 and a = (r + s) / 2, asin has real part atan2(x, root) and acos atan2(root, re), where
// root = sqrt(a^2 - x^2), and the imaginary part of both is log(a + sqrt(a^2 - 1)).
template <class Ops>
struct ArcParts {
  typename Ops::F x, root, log;
};
template <class Ops>
ArcParts<Ops> Arc(const Ops& o, const Complex<Ops>& z) {
  const auto one = o.Const(1.0), half = o.Const(0.5), quarter = o.Const(0.25), zero = o.Const(0.0);
  const auto far_out = o.Const(o.digits() == 24 ? 0x1p30 : 0x1p300);
  const auto ax = o.Abs(z.re), ay = o.Abs(z.im);
  const auto far = o.Or(o.Gt(ax, far_out), o.Gt(ay, far_out));
  const auto x = o.Select(far, zero, ax), y = o.Select(far, one, ay);
  const auto x1 = o.Add(x, one), from_one = o.Sub(x, one);
  const auto r = Hypot(o, x1, y), s = Hypot(o, from_one, y);
  const auto a = o.Mul(half, o.Add(r, s)), ax_sum = o.Add(a, x), a1 = o.Add(a, one);
  const auto yy = o.Mul(y, y), twice = o.Add(y, y);
  const auto inside = o.Le(x, one);
  // yy / sum is r - (x + 1) and yy / gap is s - |x - 1|; for y = 0 both are 0.
  const auto sum = o.Add(r, x1), distance = o.Add(s, o.Abs(from_one));
  const auto gap = o.Select(o.Eq(distance, zero), one, distance);
  const auto first = o.Div(yy, sum), second = o.Div(yy, gap);
  // The squares of small y vanish: outside root is y times a root, inside sqrt(a^2 - 1) is sqrt(y) times one.
  const auto root_inside = o.Sqrt(o.Mul(o.Mul(half, o.Add(first, distance)), ax_sum));
  const auto root_outside = o.Mul(y, o.Sqrt(o.Mul(half, o.Add(o.Div(ax_sum, sum), o.Div(ax_sum, gap)))));
  const auto less_one = o.Mul(half, o.Add(first, o.Select(inside, second, distance)));
  const auto by_y = o.Mul(o.Mul(quarter, a1), o.Add(o.Div(twice, sum), o.Div(twice, gap)));
  const auto log_root = o.Select(inside, o.Mul(o.Sqrt(y), o.Sqrt(by_y)), o.Sqrt(o.Mul(less_one, a1)));
  const auto log = o.Log1p(o.Add(less_one, log_root));
  const auto far_log = o.Add(LogAbs(o, ax, ay), o.Const(0.69314718055994530942));
  return {o.Select(far, ax, x), o.Select(far, ay, o.Select(inside, root_inside, root_outside)),
          o.Select(far, far_log, log)};
}
template <class Ops>
Complex<Ops> Asin(const Ops& o, const Complex<Ops>& z) {
  const auto parts = Arc(o, z);
  return {CopySign(o, o.Atan2(parts.x, parts.root), z.re), SignOfValue(o, parts.log, z.im)};
}
template <class Ops>
Complex<Ops> Acos(const Ops& o, const Complex<Ops>& z) {
  const auto parts = Arc(o, z);
  return {o.Atan2(parts.root, z.re), o.Neg(SignOfValue(o, parts.log, z.im))};
}
// i asin(-iz)
template <class Ops>
Complex<Ops> Asinh(const Ops& o, const Complex<Ops>& z) {
  const auto parts = Arc(o, Complex<Ops>{z.im, z.re});
  return {SignOfValue(o, parts.log, z.re), CopySign(o, o.Atan2(parts.x, parts.root), z.im)};
}
template <class Ops>
Complex<Ops> Acosh(const Ops& o, const Complex<Ops>& z) {
  const auto parts = Arc(o, z);
  return {parts.log, SignOfValue(o, o.Atan2(parts.root, z.re), z.im)};
}

// log((1 + z) / (1 - z)) / 2. Far out the real part is that of 1 / z, and the imaginary part is pi / 2.
template <class Ops>
Complex<Ops> Atanh(const Ops& o, const Complex<Ops>& z) {
  const auto one = o.Const(1.0), zero = o.Const(0.0), half_pi = o.Const(kPi / 2);
  const auto most = o.Const(o.digits() == 24 ? 0x1p48 : 0x1p106);
  const auto x = o.Abs(z.re), y = o.Abs(z.im);
  const auto near = o.And(o.Lt(x, most), o.Lt(y, most));  // XLA's border, and what NaN is not within
  const auto rest = o.Sub(one, x);
  const auto yy = o.Mul(z.im, z.im);
  const auto distance = o.Add(o.Mul(rest, rest), yy);
  const auto re = o.Mul(o.Const(0.25), o.Log1p(o.Div(o.Mul(o.Const(4.0), x), distance)));
  const auto im = o.Mul(o.Const(0.5), o.Atan2(o.Add(z.im, z.im), o.Sub(o.Mul(rest, o.Add(one, x)), yy)));
  const auto swap = o.Lt(x, y);
  const auto high = o.Select(swap, y, x), low = o.Select(swap, x, y);
  const auto ratio = o.Div(low, high);
  const auto inverse = o.Div(o.Select(swap, ratio, one), o.Mul(high, o.Add(one, o.Mul(ratio, ratio))));
  const auto infinite = o.Or(IsInfinite(o, x), IsInfinite(o, y));
  const auto far_re = o.Select(infinite, zero, inverse);
  const auto far_im = o.Select(o.Ge(z.im, zero), half_pi, o.Neg(half_pi));
  return {SignOfValue(o, o.Select(near, re, far_re), z.re), o.Select(near, im, far_im)};
}

}  // namespace krafla::complex_formulas
