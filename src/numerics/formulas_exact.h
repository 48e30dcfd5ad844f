// SPDX-License-Identifier: Apache-2.0
// remainder, exact; and correctly rounded division and square root made from inexact native ones, for devices whose own
// are not (Vulkan promises 2.5 ULP for division, less for the root).
#pragma once

#include "numerics/formulas_basic.h"
#include "numerics/formulas_int.h"

namespace krafla {

// C's fmod: long division of the significands, eight bits of quotient a step; the exponents are at most 276 apart.
template <class Ops>
typename Ops::F Remainder(const Ops& o, typename Ops::F x, typename Ops::F y) {
  namespace in = formulas_internal;
  using I = typename Ops::I;
  const auto k = [&](uint32_t value) { return o.ConstI(value); };
  const I zero = k(0);
  const I sign = in::SignOf(o, x);
  const I ux = o.And(o.Bits(x), k(0x7fffffffu));
  const I uy = o.And(o.Bits(y), k(0x7fffffffu));

  const auto significand = [&](I u) {
    const I hidden = o.SelectI(o.ULt(u, k(0x00800000u)), zero, k(0x00800000u));
    return o.Or(o.And(u, k(0x007fffffu)), hidden);
  };
  const auto exponent = [&](I u) {
    const I field = o.Shr(u, k(23));
    return o.SelectI(o.IEq(field, zero), k(1), field);
  };
  const I ey = exponent(uy);
  I my = significand(uy);
  my = o.SelectI(o.IEq(my, zero), k(1), my);

  const std::array<I, 1> start = {ux};
  const auto divided = o.When(o.ULe(uy, ux), start, [&](const std::array<I, 1>&) {
    const I steps = o.ISub(exponent(ux), ey);
    std::array<I, 2> state = {significand(ux), o.SelectI(o.SLt(steps, zero), zero, steps)};
    const auto modulo = [&](I value) { return o.ISub(value, o.IMul(o.UDiv(value, my), my)); };
    state[0] = modulo(state[0]);
    state = o.Loop(
        36, state, [&](const std::array<I, 2>& s) { return o.BAnd(o.INe(s[1], zero), o.INe(s[0], zero)); },
        [&](const std::array<I, 2>& s) {
          const I step = o.SelectI(o.ULt(s[1], k(8)), s[1], k(8));
          return std::array<I, 2>{modulo(o.Shl(s[0], step)), o.ISub(s[1], step)};
        });
    // Back to a float with the exponent of y, or a lower one.
    const I rest = state[0];
    const I up = o.ISub(Clz(o, o.Or(rest, k(1))), k(8));
    const I normal_exponent = o.ISub(ey, up);
    const auto is_normal = o.SLt(zero, normal_exponent);
    const I shift = o.SelectI(is_normal, up, o.ISub(ey, k(1)));
    const I field = o.SelectI(is_normal, o.ISub(normal_exponent, k(1)), zero);
    const I bits = o.IAdd(o.Shl(rest, o.And(shift, k(31))), o.Shl(field, k(23)));
    return std::array<I, 1>{o.SelectI(o.IEq(rest, zero), zero, bits)};
  });
  const auto result = o.FromBits(o.Or(divided[0], sign));
  // x infinite or NaN, y zero or NaN.
  const auto invalid = o.BOr(o.ULe(k(0x7f800000u), ux), o.BOr(o.IEq(uy, zero), o.ULt(k(0x7f800000u), uy)));
  return o.Select(invalid, in::Nan(o), result);
}

// x / y rounded to nearest even, from `approximate(a, b)`, a quotient of a, b in [1, 2) with an error up to 8 ULP
// (2^-20). Subnormals count as zero; a result below 2^-126 is zero.
template <class Ops, class Approximate>
typename Ops::F DivideFrom(const Ops& o, typename Ops::F x, typename Ops::F y, Approximate approximate) {
  namespace in = formulas_internal;
  using I = typename Ops::I;
  const auto k = [&](uint32_t value) { return o.ConstI(value); };
  const I sign = o.Xor(in::SignOf(o, x), in::SignOf(o, y));
  const I ux = o.And(o.Bits(x), k(0x7fffffffu));
  const I uy = o.And(o.Bits(y), k(0x7fffffffu));
  const I fx = o.And(ux, k(0x007fffffu));
  const I fy = o.And(uy, k(0x007fffffu));
  const I mx = o.Or(fx, k(0x00800000u));
  const I my = o.Or(fy, k(0x00800000u));

  // q = floor(mx 2^s / my), 25 bits: s = 24, or 25 where mx < my.
  const auto below = o.ULt(fx, fy);
  const I s = o.SelectI(below, k(25), k(24));
  const auto guess = approximate(o.FromBits(o.Or(fx, k(0x3f800000u))), o.FromBits(o.Or(fy, k(0x3f800000u))));
  I q = o.ToIntS(o.Mul(guess, o.Select(below, o.Const(0x1p25f), o.Const(0x1p24f))));
  // The remainder is small, so 32 bits of it are enough: mx 2^s mod 2^32 is (the low bits of mx) 2^s.
  I r = o.ISub(o.Shl(mx, s), o.IMul(q, my));
  // abs(r) < 2^5 my: five halvings bring it into [0, my) after one addition of 32 my.
  r = o.IAdd(r, o.Shl(my, k(5)));
  q = o.ISub(q, k(32));
  for (uint32_t step = 6; step-- > 0;) {
    const I part = o.Shl(my, k(step));
    const auto fits = o.ULe(part, r);
    r = o.SelectI(fits, o.ISub(r, part), r);
    q = o.SelectI(fits, o.IAdd(q, k(1u << step)), q);
  }
  // To 24 bits: up where the last bit is set and either the rest is not zero or the bit above it is set.
  const I sticky = o.SelectI(o.INe(r, k(0)), k(1), k(0));
  const I round = o.And(q, o.Or(sticky, o.And(o.Shr(q, k(1)), k(1))));
  const I rounded = o.IAdd(o.Shr(q, k(1)), round);  // may be 2^24, which carries into the exponent
  const I exponent = o.ISub(o.IAdd(o.ISub(o.Shr(ux, k(23)), o.Shr(uy, k(23))), k(126)), o.SelectI(below, k(1), k(0)));
  const I bits = o.IAdd(o.Shl(exponent, k(23)), rounded);
  const auto underflows = o.BOr(o.SLt(exponent, k(0)), o.ULt(bits, k(0x00800000u)));
  const auto overflows = o.BAnd(o.SLe(k(0), exponent), o.BOr(o.SLe(k(254), exponent), o.ULe(k(0x7f800000u), bits)));
  // Just below 2^-126 the spacing is that of the subnormals, and the nearest number is 2^-126.
  const auto nearly = o.BAnd(o.IEq(exponent, k(0xffffffffu)), o.ULe(k(0x01fffffeu), q));
  I result = o.SelectI(underflows, o.SelectI(nearly, k(0x00800000u), k(0)), bits);
  result = o.SelectI(overflows, k(0x7f800000u), result);

  const auto x_zero = o.ULt(ux, k(0x00800000u));
  const auto y_zero = o.ULt(uy, k(0x00800000u));
  const auto x_inf = o.IEq(ux, k(0x7f800000u));
  const auto y_inf = o.IEq(uy, k(0x7f800000u));
  result = o.SelectI(o.BOr(x_zero, y_inf), k(0), result);
  result = o.SelectI(o.BOr(y_zero, x_inf), k(0x7f800000u), result);
  const auto nan = o.BOr(o.BOr(o.ULt(k(0x7f800000u), ux), o.ULt(k(0x7f800000u), uy)),
                         o.BOr(o.BAnd(x_zero, y_zero), o.BAnd(x_inf, y_inf)));
  return o.FromBits(o.SelectI(nan, k(in::kNanBits), o.Or(result, sign)));
}

// The root of x rounded to nearest even, from `approximate(a)`, a root of a in [1, 4) with an error up to 8 ULP.
template <class Ops, class Approximate>
typename Ops::F SqrtFrom(const Ops& o, typename Ops::F x, Approximate approximate) {
  namespace in = formulas_internal;
  using I = typename Ops::I;
  const auto k = [&](uint32_t value) { return o.ConstI(value); };
  const I bits = o.Bits(x);
  const I biased = o.IAdd(o.And(o.Shr(bits, k(23)), k(255)), k(1));  // 127 becomes even: 1 is 1.0 2^0
  const I odd = o.And(biased, k(1));
  const I m = o.Shl(o.Or(o.And(bits, k(0x007fffffu)), k(0x00800000u)), odd);  // in [2^23, 2^25)
  // q = floor(sqrt(m 2^25)) has 25 bits.
  const auto a = o.FromBits(o.IAdd(o.Or(o.And(bits, k(0x007fffffu)), k(0x3f800000u)), o.Shl(odd, k(23))));
  I q = o.ToIntS(o.Mul(approximate(a), o.Const(0x1p24f)));
  q = o.ISub(q, k(32));
  // m 2^25 - q^2 modulo 2^32 is enough, the remainder being below 2^31.
  I r = o.ISub(o.Shl(m, k(25)), o.IMul(q, q));
  for (uint32_t step = 6; step-- > 0;) {
    const I part = o.Shl(o.IAdd(o.Shl(q, k(1)), k(1u << step)), k(step));  // (q + 2^step)^2 - q^2
    const auto fits = o.ULe(part, r);
    r = o.SelectI(fits, o.ISub(r, part), r);
    q = o.SelectI(fits, o.IAdd(q, k(1u << step)), q);
  }
  // A root is never half way between two floats.
  const I rounded = o.IAdd(o.Shr(q, k(1)), o.And(q, k(1)));
  const I exponent = o.IAdd(o.Shr(biased, k(1)), k(62));
  const auto root = o.FromBits(o.IAdd(o.Shl(exponent, k(23)), rounded));

  const I magnitude = o.And(bits, k(0x7fffffffu));
  auto result = o.Select(o.ULt(bits, k(0x7f800000u)), root, in::Nan(o));
  result = o.Select(o.IEq(bits, k(0x7f800000u)), x, result);
  return o.Select(o.ULt(magnitude, k(0x00800000u)), o.FromBits(in::SignOf(o, x)), result);
}

}  // namespace krafla
