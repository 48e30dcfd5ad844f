// SPDX-License-Identifier: Apache-2.0
// sin, cos, tan: right for every finite x.
//
// x = q pi/2 + r with abs(r) <= pi/4 and r as the sum of two floats. Below 3072 pi/2 is split into three parts of 13
// bits, whose products with q are exact, and a rest (Cody and Waite). From there on x times 2/pi is taken modulo 4 in
// integers, with 2/pi to as many bits as the largest float needs (Payne and Hanek).
#pragma once

#include "numerics/formulas_basic.h"

namespace krafla {

namespace formulas_internal {

template <class Ops>
struct TrigReduction {
  typename Ops::F r, low;
  typename Ops::I quadrant;  // in the low two bits
};

template <class Ops>
TrigReduction<Ops> ReduceTrigSmall(const Ops& o, typename Ops::F x) {
  const auto magic = o.Const(0x1.8p23f);
  const auto shifted = o.Add(o.Mul(x, o.Const(0x1.45f306p-1f)), magic);
  const auto n = o.Sub(shifted, magic);
  const auto d = o.Sub(x, o.Mul(n, o.Const(0x1.921p+0f)));  // exact
  const auto second = o.Mul(n, o.Const(0x1.f6ap-13f));
  const auto r = o.Sub(d, second);
  auto low = o.Sub(o.Sub(d, r), second);             // exact
  low = o.Sub(low, o.Mul(n, o.Const(0x1.11p-26f)));  // exact
  const auto sum = o.Add(r, low);
  low = o.Sub(low, o.Sub(sum, r));
  low = o.Sub(low, o.Mul(n, o.Const(0x1.68c234p-39f)));
  return {sum, low, o.Bits(shifted)};
}

template <class Ops>
std::array<typename Ops::I, 3> ReduceTrigLarge(const Ops& o, typename Ops::F x) {
  using I = typename Ops::I;
  using F = typename Ops::F;
  // 32 zeros, then the bits of 2/pi.
  constexpr uint32_t kTwoOverPi[9] = {0u,          0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u,
                                      0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u};
  const auto k = [&](uint32_t value) { return o.ConstI(value); };
  const I bits = o.Bits(x);
  const I mantissa = o.Or(o.And(bits, k(0x007fffffu)), k(0x00800000u));
  // x = mantissa 2^e. The bits of 2/pi of weight 2^(2-e) and more give multiples of 4; the 96 from there on count.
  const I position = o.ISub(o.And(o.Shr(bits, k(23)), k(255)), k(150 - 30));
  const I word = o.Shr(position, k(5));
  const I shift = o.And(position, k(31));
  const I unshift = o.ISub(k(31), shift);
  I words[4];
  for (uint32_t i = 0; i < 4; ++i) {
    words[i] = k(kTwoOverPi[i]);
    for (uint32_t w = 1; w < 5; ++w) words[i] = o.SelectI(o.IEq(word, k(w)), k(kTwoOverPi[i + w]), words[i]);
  }
  I window[3];
  for (int i = 0; i < 3; ++i) { window[i] = o.Or(o.Shl(words[i], shift), o.Shr(o.Shr(words[i + 1], k(1)), unshift)); }
  // The low 96 bits of mantissa * window: two bits of quadrant, then the fraction.
  const I middle = o.IMul(mantissa, window[1]);
  const I mid = o.IAdd(middle, o.UMulHi(mantissa, window[2]));
  const I carry = o.SelectI(o.ULt(mid, middle), k(1), k(0));
  const I top = o.IAdd(o.IAdd(o.IMul(mantissa, window[0]), o.UMulHi(mantissa, window[1])), carry);

  const I quadrant = o.Shr(o.IAdd(top, k(0x20000000u)), k(30));
  const I fraction = o.ISub(top, o.Shl(quadrant, k(30)));  // signed, below 2^29
  const I sign = o.And(fraction, k(kSignBit));
  const I flip = o.Sar(fraction, k(31));
  const I hi = o.Xor(fraction, flip);
  const I lo = o.Xor(mid, flip);
  // fraction = a 2^-22 + b 2^-46 + c 2^-62, each of a, b, c exact in a float.
  const F a = o.Mul(o.FromIntS(o.Shr(hi, k(8))), o.Const(0x1p-22f));
  const F b = o.Mul(o.FromIntS(o.Or(o.Shl(o.And(hi, k(255)), k(16)), o.Shr(lo, k(16)))), o.Const(0x1p-46f));
  const F c = o.Mul(o.FromIntS(o.And(lo, k(0xffffu))), o.Const(0x1p-62f));
  const F s = o.Add(a, b);
  const F e = o.Add(o.Sub(b, o.Sub(s, a)), c);
  // (s + e) pi/2
  const F s_hi = Upper12(o, s);
  const F product = o.Mul(s_hi, o.Const(0x1.92p+0f));
  F rest = o.Mul(s_hi, o.Const(0x1.fb5444p-12f));
  rest = o.Add(rest, o.Mul(o.Add(o.Sub(s, s_hi), e), o.Const(0x1.921fb6p+0f)));
  const F r = o.Add(product, rest);
  const F low = o.Sub(rest, o.Sub(r, product));
  // All of this was for abs(x).
  const I negative = o.And(bits, k(kSignBit));
  const I turn = o.Xor(sign, negative);
  return {o.Xor(o.Bits(r), turn), o.Xor(o.Bits(low), turn),
          o.SelectI(o.INe(negative, k(0)), o.ISub(k(0), quadrant), quadrant)};
}

template <class Ops>
TrigReduction<Ops> ReduceTrig(const Ops& o, typename Ops::F x) {
  const auto small = ReduceTrigSmall(o, x);
  const std::array<typename Ops::I, 3> state = {o.Bits(small.r), o.Bits(small.low), small.quadrant};
  const auto result = o.When(o.Ge(o.Abs(x), o.Const(3072.0f)), state,
                             [&](const std::array<typename Ops::I, 3>&) { return ReduceTrigLarge(o, x); });
  return {o.FromBits(result[0]), o.FromBits(result[1]), result[2]};
}

template <class Ops>
struct SinCosParts {
  typename Ops::F sin_hi, sin_lo, cos_hi, cos_lo;  // not yet added
};
// Of r + low, abs(r) <= pi/4.
template <class Ops>
SinCosParts<Ops> SinCosReduced(const Ops& o, typename Ops::F r, typename Ops::F low) {
  const auto one = o.Const(1.0f);
  const auto z = o.Mul(r, r);
  const auto h = o.Mul(z, o.Const(0.5f));
  const auto w = o.Sub(one, h);
  const auto s = o.Mul(z, Poly(o, z, {-0x1.555546p-3f, 0x1.110776p-7f, -0x1.9952ecp-13f}));
  const auto sin_lo = o.Add(o.Mul(r, s), o.Mul(low, w));
  const auto c = o.Mul(o.Mul(z, z), Poly(o, z, {0x1.55554ap-5f, -0x1.6c0c2ap-10f, 0x1.99e8fap-16f}));
  const auto dropped = o.Sub(o.Sub(one, w), h);
  return {r, sin_lo, w, o.Add(dropped, o.Sub(c, o.Mul(r, low)))};
}

}  // namespace formulas_internal

template <class Ops>
typename Ops::F Sin(const Ops& o, typename Ops::F x) {
  namespace in = formulas_internal;
  const auto [r, low, quadrant] = in::ReduceTrig(o, x);
  const auto parts = in::SinCosReduced(o, r, low);
  const auto sin = o.Add(parts.sin_hi, parts.sin_lo);
  const auto cos = o.Add(parts.cos_hi, parts.cos_lo);
  const auto odd = o.INe(o.And(quadrant, o.ConstI(1)), o.ConstI(0));
  const auto sign = o.And(o.Shl(quadrant, o.ConstI(30)), o.ConstI(in::kSignBit));
  auto result = o.FromBits(o.Xor(o.Bits(o.Select(odd, cos, sin)), sign));
  result = o.Select(o.Lt(o.Abs(x), o.Const(0x1p-12f)), x, result);
  return o.Select(o.Lt(o.Abs(x), o.Const(in::kInf)), result, in::Nan(o));
}

template <class Ops>
typename Ops::F Cos(const Ops& o, typename Ops::F x) {
  namespace in = formulas_internal;
  const auto [r, low, quadrant] = in::ReduceTrig(o, x);
  const auto parts = in::SinCosReduced(o, r, low);
  const auto sin = o.Add(parts.sin_hi, parts.sin_lo);
  const auto cos = o.Add(parts.cos_hi, parts.cos_lo);
  const auto odd = o.INe(o.And(quadrant, o.ConstI(1)), o.ConstI(0));
  const auto sign = o.And(o.Shl(o.IAdd(quadrant, o.ConstI(1)), o.ConstI(30)), o.ConstI(in::kSignBit));
  const auto result = o.FromBits(o.Xor(o.Bits(o.Select(odd, sin, cos)), sign));
  return o.Select(o.Lt(o.Abs(x), o.Const(in::kInf)), result, in::Nan(o));
}

// sin / cos or -cos / sin, each as the sum of two floats.
template <class Ops>
typename Ops::F Tan(const Ops& o, typename Ops::F x) {
  namespace in = formulas_internal;
  const auto [r, low, quadrant] = in::ReduceTrig(o, x);
  const auto parts = in::SinCosReduced(o, r, low);
  const auto sin = o.Add(parts.sin_hi, parts.sin_lo);
  const auto sin_rest = o.Sub(parts.sin_lo, o.Sub(sin, parts.sin_hi));
  const auto cos = o.Add(parts.cos_hi, parts.cos_lo);
  const auto cos_rest = o.Sub(parts.cos_lo, o.Sub(cos, parts.cos_hi));
  const auto odd = o.INe(o.And(quadrant, o.ConstI(1)), o.ConstI(0));
  const auto d = o.Select(odd, sin, cos);
  const auto q = o.Div(o.Select(odd, o.Neg(cos), sin), d);
  const auto n_rest = o.Select(odd, o.Neg(cos_rest), sin_rest);
  const auto d_rest = o.Select(odd, sin_rest, cos_rest);
  auto result = o.Add(q, o.Div(o.Sub(n_rest, o.Mul(q, d_rest)), d));
  result = o.Select(o.Lt(o.Abs(x), o.Const(0x1p-12f)), x, result);
  return o.Select(o.Lt(o.Abs(x), o.Const(in::kInf)), result, in::Nan(o));
}

}  // namespace krafla
