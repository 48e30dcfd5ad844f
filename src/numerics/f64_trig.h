// SPDX-License-Identifier: Apache-2.0
// f64 formulas: sin, cos, tan for every finite argument, and asin, acos, atan2. The reductions are those of
// formulas_trig.h with wider parts.
#pragma once

#include <array>

#include "numerics/f64_ops.h"

namespace krafla::f64 {

template <class Ops>
struct TrigReduction {
  typename Ops::F r, low;    // abs(r) <= pi/4
  typename Ops::I quadrant;  // in the low two bits
};

// Cody and Waite: pi/2 in three parts, of which the first two have 33 bits and exact products with n.
template <class Ops>
TrigReduction<Ops> ReduceTrigSmall(const Ops& o, typename Ops::F x) {
  const auto magic = o.Const(0x1.8p52);
  const auto shifted = o.Add(o.Mul(x, o.Const(0x1.45f306dc9c883p-1)), magic);
  const auto n = o.Sub(shifted, magic);
  const auto first = o.Sub(x, o.Mul(n, o.Const(0x1.921fb54400000p+0)));  // exact
  const auto second = o.Mul(n, o.Const(-0x1.0b4611a600000p-34));
  const auto sum = TwoSum(o, first, second);
  const auto low = o.Sub(sum.lo, o.Mul(n, o.Const(0x1.3198a2e037073p-69)));
  const auto r = FastTwoSum(o, sum.hi, low);
  return {r.hi, r.lo, o.Low(shifted)};
}

// Payne and Hanek for abs(x) >= 2048: x times 2/pi modulo 4 in integers. Words low and high of r and of its rest, and
// the quadrant.
template <class Ops>
std::array<typename Ops::I, 5> ReduceTrigLarge(const Ops& o, typename Ops::F x) {
  using I = typename Ops::I;
  using F = typename Ops::F;
  constexpr std::size_t kWindow = 6;
  // 64 zeros, then the bits of 2/pi.
  constexpr uint32_t kTwoOverPi[40] = {
      0u,          0u,          0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u,
      0xfe5163abu, 0xdebbc561u, 0xb7246e3au, 0x424dd2e0u, 0x06492eeau, 0x09d1921cu, 0xfe1deb1cu, 0xb129a73eu,
      0xe88235f5u, 0x2ebb4484u, 0xe99c7026u, 0xb45f7e41u, 0x3991d639u, 0x835339f4u, 0x9c845f8bu, 0xbdf9283bu,
      0x1ff897ffu, 0xde05980fu, 0xef2f118bu, 0x5a0a6d1fu, 0x6d367ecfu, 0x27cb09b7u, 0x4f463f66u, 0x9e5fea2du,
      0x7527bac7u, 0xebe5f17bu, 0x3d0739f7u, 0x8a5292eau, 0x6bfb5fb1u, 0x1f8d5d08u, 0x56033046u, 0xfc7b6babu};
  const auto k = [&](uint32_t value) { return o.ConstI(value); };
  const I high = o.High(x);
  const I m_high = o.Or(o.And(high, k(0xfffffu)), k(0x100000u));
  const I m_low = o.Low(x);
  // x = m 2^e. Of 2/pi the bits of weight 2^(2-e) and more give multiples of 4; the 192 from there on count.
  const I position = o.ISub(o.And(o.Shr(high, k(20)), k(0x7ffu)), k(1075 - 62));
  const I word = o.Shr(position, k(5));
  const I shift = o.And(position, k(31));
  const I unshift = o.ISub(k(31), shift);
  // The words from number `word` on, halving the choice each time.
  std::array<I, 40> words;
  for (std::size_t i = 0; i < 40; ++i) words[i] = k(kTwoOverPi[i]);
  for (uint32_t step = 32; step > 0; step /= 2) {
    const auto set = o.INe(o.And(word, k(step)), k(0));
    const std::size_t need = kWindow + 1 + step - 1;
    for (std::size_t i = 0; i < need && i < 40; ++i) {
      const bool there = i + step < 40;
      words[i] = o.SelectI(set, there ? words[i + step] : k(0), words[i]);
    }
  }
  std::array<I, kWindow> window, sum;
  for (std::size_t i = 0; i < kWindow; ++i) {
    window[i] = o.Or(o.Shl(words[i], shift), o.Shr(o.Shr(words[i + 1], k(1)), unshift));
    sum[i] = k(0);
  }
  // The low 192 bits of m * window, the most significant word first.
  auto add = [&](std::size_t at, I value) {
    I carry = value;
    for (std::size_t i = at + 1; i-- > 0;) {
      sum[i] = o.IAdd(sum[i], carry);
      carry = o.SelectI(o.ULt(sum[i], carry), k(1), k(0));
    }
  };
  for (std::size_t j = kWindow; j-- > 0;) {
    add(j, o.IMul(m_low, window[j]));
    if (j >= 1) add(j - 1, o.UMulHi(m_low, window[j]));
    if (j >= 1) add(j - 1, o.IMul(m_high, window[j]));
    if (j >= 2) add(j - 2, o.UMulHi(m_high, window[j]));
  }
  const I quadrant = o.Shr(o.IAdd(sum[0], k(0x20000000u)), k(30));
  const I top = o.ISub(sum[0], o.Shl(quadrant, k(30)));  // signed
  const I flip = o.Sar(top, k(31));
  auto part = [&](I bits, double weight) { return o.Mul(o.FromIntU(o.Xor(bits, flip)), o.Const(weight)); };
  const auto tail = FastTwoSum(o, part(sum[2], 0x1p-94), o.Add(part(sum[3], 0x1p-126), part(sum[4], 0x1p-158)));
  const auto middle = FastTwoSum(o, part(sum[1], 0x1p-62), tail.hi);
  const auto all = FastTwoSum(o, part(top, 0x1p-30), middle.hi);
  const auto s = FastTwoSum(o, all.hi, o.Add(all.lo, o.Add(middle.lo, tail.lo)));
  // times pi/2
  const auto product = TwoProduct(o, s.hi, o.Const(0x1.921fb54442d18p+0));
  const F low =
      o.Add(product.lo, o.Add(o.Mul(s.hi, o.Const(0x1.1a62633145c07p-54)), o.Mul(s.lo, o.Const(0x1.921fb54442d18p+0))));
  const auto r = FastTwoSum(o, product.hi, low);
  // All of this was for abs(x).
  const I negative = o.And(high, k(0x80000000u));
  const I turn = o.Xor(o.And(flip, k(0x80000000u)), negative);
  return {o.Low(r.hi), o.Xor(o.High(r.hi), turn), o.Low(r.lo), o.Xor(o.High(r.lo), turn),
          o.SelectI(o.INe(negative, k(0)), o.ISub(k(0), quadrant), quadrant)};
}

template <class Ops>
TrigReduction<Ops> ReduceTrig(const Ops& o, typename Ops::F x) {
  const auto small = ReduceTrigSmall(o, x);
  const std::array<typename Ops::I, 5> state = {o.Low(small.r), o.High(small.r), o.Low(small.low), o.High(small.low),
                                                small.quadrant};
  const auto result = o.When(o.Ge(o.Abs(x), o.Const(2048.0)), state,
                             [&](const std::array<typename Ops::I, 5>&) { return ReduceTrigLarge(o, x); });
  return {o.Join(result[0], result[1]), o.Join(result[2], result[3]), result[4]};
}

// Sine and cosine of r + low as sums of two parts.
template <class Ops>
struct SinCosParts {
  Pair<Ops> sin, cos;
};
template <class Ops>
SinCosParts<Ops> SinCosReduced(const Ops& o, typename Ops::F r, typename Ops::F low) {
  const auto one = o.Const(1.0);
  const auto z = o.Mul(r, r);
  const auto h = o.Mul(z, o.Const(0.5));
  const auto w = o.Sub(one, h);
  const auto s =
      o.Mul(z, Poly(o, z,
                    {-0x1.5555555555555p-3, 0x1.1111111111110p-7, -0x1.a01a01a019937p-13, 0x1.71de3a54606acp-19,
                     -0x1.ae64541276bbbp-26, 0x1.61217eca85f70p-33, -0x1.ab17ac6a78e4ep-41}));
  const auto sin_low = o.Add(o.Mul(r, s), o.Mul(low, w));
  const auto c = o.Mul(
      o.Mul(z, z), Poly(o, z,
                        {0x1.5555555555555p-5, -0x1.6c16c16c16c16p-10, 0x1.a01a01a019d0ap-16, -0x1.27e4fb7712c23p-22,
                         0x1.1eed8deb730a8p-29, -0x1.9394b9d0ac859p-37, 0x1.ab78367ee48aep-45}));
  const auto dropped = o.Sub(o.Sub(one, w), h);
  return {FastTwoSum(o, r, sin_low), FastTwoSum(o, w, o.Add(dropped, o.Sub(c, o.Mul(r, low))))};
}

template <class Ops>
typename Ops::F TrigResult(const Ops& o, typename Ops::F x, typename Ops::F magnitude, typename Ops::I quadrant) {
  const auto sign = o.And(o.Shl(quadrant, o.ConstI(30)), o.ConstI(0x80000000u));
  const auto turned = o.Join(o.Low(magnitude), o.Xor(o.High(magnitude), sign));
  return o.Select(o.Lt(o.Abs(x), o.Const(kInf)), turned, Nan(o));
}
template <class Ops>
typename Ops::F Sin(const Ops& o, typename Ops::F x) {
  const auto [r, low, quadrant] = ReduceTrig(o, x);
  const auto parts = SinCosReduced(o, r, low);
  const auto odd = o.INe(o.And(quadrant, o.ConstI(1)), o.ConstI(0));
  const auto result = TrigResult(o, x, o.Select(odd, parts.cos.hi, parts.sin.hi), quadrant);
  return o.Select(o.Lt(o.Abs(x), o.Const(0x1p-27)), x, result);
}
template <class Ops>
typename Ops::F Cos(const Ops& o, typename Ops::F x) {
  const auto [r, low, quadrant] = ReduceTrig(o, x);
  const auto parts = SinCosReduced(o, r, low);
  const auto odd = o.INe(o.And(quadrant, o.ConstI(1)), o.ConstI(0));
  return TrigResult(o, x, o.Select(odd, parts.sin.hi, parts.cos.hi), o.IAdd(quadrant, o.ConstI(1)));
}
// sin / cos or -cos / sin.
template <class Ops>
typename Ops::F Tan(const Ops& o, typename Ops::F x) {
  const auto [r, low, quadrant] = ReduceTrig(o, x);
  const auto parts = SinCosReduced(o, r, low);
  const auto odd = o.INe(o.And(quadrant, o.ConstI(1)), o.ConstI(0));
  const auto d = o.Select(odd, parts.sin.hi, parts.cos.hi), d_low = o.Select(odd, parts.sin.lo, parts.cos.lo);
  const auto n = o.Select(odd, o.Neg(parts.cos.hi), parts.sin.hi);
  const auto n_low = o.Select(odd, o.Neg(parts.cos.lo), parts.sin.lo);
  const auto q = o.Div(n, d);
  auto result = o.Add(q, o.Div(o.Sub(n_low, o.Mul(q, d_low)), d));
  result = o.Select(o.Lt(o.Abs(x), o.Const(0x1p-27)), x, result);
  return o.Select(o.Lt(o.Abs(x), o.Const(kInf)), result, Nan(o));
}

// asin(s) for 0 <= s <= 1/2, z = s^2, less s.
template <class Ops>
typename Ops::F AsinTail(const Ops& o, typename Ops::F s, typename Ops::F z) {
  const auto p = Poly(
      o, z,
      {0x1.5555555555556p-3, 0x1.3333333332e38p-4, 0x1.6db6db6e3f9b9p-5, 0x1.f1c71c15a9f9dp-6, 0x1.6e8bb2ff9af32p-6,
       0x1.1c4d19f5d5146p-6, 0x1.c9d22f59c5100p-7, 0x1.780831d4e7321p-7, 0x1.5301ce706920fp-7, 0x1.5f5d9f320f1bcp-8,
       0x1.214aba8900818p-6, -0x1.f3832f7fe589cp-7, 0x1.db783135445cep-6});
  return o.Mul(o.Mul(s, z), p);
}
// s = sqrt((1 - abs x) / 2) from 1/2 on, else abs x; asin(s) in two parts.
template <class Ops>
struct AsinParts {
  typename Ops::B large;
  Pair<Ops> angle;
};
template <class Ops>
AsinParts<Ops> AsinReduced(const Ops& o, typename Ops::F x) {
  const auto a = o.Abs(x);
  const auto large = o.Ge(a, o.Const(0.5));
  const auto z = o.Select(large, o.Mul(o.Sub(o.Const(1.0), a), o.Const(0.5)), o.Mul(a, a));
  const auto s = o.Select(large, o.Sqrt(z), a);
  const auto square = TwoProduct(o, s, s);
  const auto lost = o.Sub(o.Sub(z, square.hi), square.lo);  // of the root
  const auto s_low = o.Select(o.BAnd(large, o.Gt(z, o.Const(0.0))), o.Div(lost, o.Add(s, s)), o.Const(0.0));
  return {large, FastTwoSum(o, s, o.Add(AsinTail(o, s, z), s_low))};
}
template <class Ops>
typename Ops::F Asin(const Ops& o, typename Ops::F x) {
  const auto [large, angle] = AsinReduced(o, x);
  const auto far = FastTwoSum(o, o.Const(0x1.921fb54442d18p+0), o.Neg(o.Add(angle.hi, angle.hi)));
  const auto rest = o.Add(far.lo, o.Sub(o.Const(0x1.1a62633145c07p-54), o.Add(angle.lo, angle.lo)));
  const auto magnitude = o.Select(large, o.Add(far.hi, rest), angle.hi);
  const auto result = WithSign(o, o.Abs(magnitude), x);
  return o.Select(o.Gt(o.Abs(x), o.Const(1.0)), Nan(o), o.Select(o.Ne(x, x), x, result));
}
// pi/2 -+ asin where x is small, 2 asin(s) near 1, pi - 2 asin(s) near -1.
template <class Ops>
typename Ops::F Acos(const Ops& o, typename Ops::F x) {
  const auto [large, angle] = AsinReduced(o, x);
  const auto negative = o.Lt(x, o.Const(0.0));
  const auto hi = o.Select(large, o.Add(angle.hi, angle.hi), angle.hi);
  const auto lo = o.Select(large, o.Add(angle.lo, angle.lo), angle.lo);
  const auto from =
      o.Select(large, o.Select(negative, o.Const(0x1.921fb54442d18p+1), o.Const(0.0)), o.Const(0x1.921fb54442d18p+0));
  const auto from_low =
      o.Select(large, o.Select(negative, o.Const(0x1.1a62633145c07p-53), o.Const(0.0)), o.Const(0x1.1a62633145c07p-54));
  // The angle is taken away except near 1 and where a small x is negative.
  const auto add = o.BOr(o.BAnd(large, o.BNot(negative)), o.BAnd(o.BNot(large), negative));
  const auto sum = TwoSum(o, from, o.Select(add, hi, o.Neg(hi)));
  const auto result = o.Add(sum.hi, o.Add(sum.lo, o.Add(from_low, o.Select(add, lo, o.Neg(lo)))));
  return o.Select(o.Gt(o.Abs(x), o.Const(1.0)), Nan(o), o.Select(o.Ne(x, x), x, result));
}

// As Atan2 of formulas_inverse_trig.h: the smaller magnitude over the greater; from tan(pi/8) on
// atan(n/d) = pi/4 + atan((n - d) / (n + d)).
template <class Ops>
typename Ops::F Atan2(const Ops& o, typename Ops::F y, typename Ops::F x) {
  const auto one = o.Const(1.0), zero = o.Const(0.0), inf = o.Const(kInf);
  const auto ax = o.Abs(x), ay = o.Abs(y);
  const auto swap = o.Gt(ay, ax);
  auto greater = o.Select(swap, ay, ax);
  auto lesser = o.Select(swap, ax, ay);
  const auto infinite = o.Eq(greater, inf);
  const auto both = o.BAnd(infinite, o.Eq(lesser, inf));
  const auto none = o.Eq(greater, zero);
  greater = o.Select(o.BOr(infinite, none), one, greater);
  lesser = o.Select(infinite, o.Select(both, one, zero), lesser);
  // Powers of two that keep sums and products in range.
  const auto big = o.Gt(greater, o.Const(0x1p900)), little = o.Lt(greater, o.Const(0x1p-900));
  const auto scale = o.Select(big, o.Const(0x1p-200), o.Select(little, o.Const(0x1p200), one));
  greater = o.Mul(greater, scale);
  lesser = o.Mul(lesser, scale);
  const auto large = o.Gt(lesser, o.Mul(greater, o.Const(0x1.a8279ap-2)));
  const auto difference = TwoSum(o, lesser, o.Neg(greater));
  const auto total = TwoSum(o, lesser, greater);
  const auto n = o.Select(large, difference.hi, lesser), n_low = o.Select(large, difference.lo, zero);
  const auto d = o.Select(large, total.hi, greater), d_low = o.Select(large, total.lo, zero);
  const auto q = o.Div(n, d);
  // The quotient's rest, where it counts.
  const auto product = TwoProduct(o, q, d);
  const auto rest = o.Add(o.Sub(o.Sub(n, product.hi), product.lo), o.Sub(n_low, o.Mul(q, d_low)));
  const auto q_low = o.Select(o.Gt(o.Abs(q), o.Const(0x1p-60)), o.Div(rest, d), zero);
  const auto z = o.Mul(q, q);
  const auto p = Poly(o, z,
                      {-0x1.5555555555555p-2, 0x1.9999999999957p-3, -0x1.249249248db8fp-3, 0x1.c71c71c32dc7bp-4,
                       -0x1.745d16656635ap-4, 0x1.3b1393a39a460p-4, -0x1.110e95592a961p-4, 0x1.e19b3473f3b4bp-5,
                       -0x1.ac826fd2e3434p-5, 0x1.74ffd91e6e3e7p-5, -0x1.1b86ef23f806dp-5, 0x1.0b833457ed685p-6});
  const auto low = o.Add(o.Mul(o.Mul(q, z), p), o.Mul(q_low, o.Sub(one, z)));
  const auto x_negative = o.INe(o.And(o.High(x), o.ConstI(0x80000000u)), o.ConstI(0));
  // The angle in units of pi/4, and whether the rest is taken from it.
  const auto at_small = o.Select(swap, o.Const(2.0), o.Select(x_negative, o.Const(4.0), zero));
  const auto count = o.Select(large, o.Select(x_negative, o.Const(3.0), one), at_small);
  const auto swap_word = o.SelectI(swap, o.ConstI(0x80000000u), o.ConstI(0));
  const auto turn = o.Xor(swap_word, o.And(o.High(x), o.ConstI(0x80000000u)));
  auto turned = [&](typename Ops::F v) { return o.Join(o.Low(v), o.Xor(o.High(v), turn)); };
  const auto base = o.Mul(count, o.Const(0x1.921fb54442d18p-1));  // exact: its last bits are zeros
  const auto base_low = o.Mul(count, o.Const(0x1.1a62633145c07p-55));
  const auto sum = TwoSum(o, base, turned(q));
  const auto angle = o.Add(sum.hi, o.Add(sum.lo, o.Add(turned(low), base_low)));
  const auto result = WithSign(o, o.Abs(angle), y);
  return o.Select(o.BOr(o.Ne(x, x), o.Ne(y, y)), Nan(o), result);
}

}  // namespace krafla::f64
