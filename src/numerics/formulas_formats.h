// SPDX-License-Identifier: Apache-2.0
// formats.h for the GPU: the same integer algorithms on Ops, bit for bit the same results.
#pragma once

#include "numerics/formats.h"
#include "numerics/formulas_basic.h"
#include "numerics/formulas_int.h"

namespace krafla {

// The code of x in the low bits of the result.
template <class Ops>
typename Ops::I EncodeFloat(const Ops& o, typename Ops::F x, const MiniFloat& f) {
  using I = typename Ops::I;
  const auto k = [&](uint32_t value) { return o.ConstI(value); };
  const I bits = o.Bits(x);
  const I magnitude = o.And(bits, k(0x7fffffffu));
  const auto is_nan = o.ULt(k(0x7f800000u), magnitude);

  if (f.specials == FloatSpecials::kPowersOfTwo) {
    const I code = o.Shr(o.IAdd(magnitude, k(0x00400000u)), k(23));
    const I low = o.SelectI(o.ULt(magnitude, k(0x00600000u)), k(0), code);  // nearest to 2^-127
    const auto none = o.BOr(o.IEq(magnitude, k(0)), o.SLt(bits, k(0)));
    return o.SelectI(o.BOr(none, o.ULt(k(254), low)), k(f.nan()), low);
  }
  const I sign = o.SelectI(o.SLt(bits, k(0)), k(f.sign_mask()), k(0));
  const auto mantissa_bits = static_cast<uint32_t>(f.mantissa_bits);
  if (f.bias == 127) {  // bf16: the exponent range of f32
    const I last = o.And(o.Shr(magnitude, k(23 - mantissa_bits)), k(1));
    const I half = k((1u << (22 - mantissa_bits)) - 1);
    const I rounded = o.Shr(o.IAdd(magnitude, o.IAdd(half, last)), k(23 - mantissa_bits));
    return o.Or(o.SelectI(is_nan, k(f.nan()), rounded), sign);
  }

  // Numbers of the format's normal range: its exponent's bits are f32's with another bias.
  const I last = o.And(o.Shr(magnitude, k(23 - mantissa_bits)), k(1));
  const uint32_t down = static_cast<uint32_t>(127 - f.bias) << 23, half = (1u << (22 - mantissa_bits)) - 1;
  const I normal = o.Shr(o.IAdd(o.IAdd(magnitude, k(half - down)), last), k(23 - mantissa_bits));
  // Below it they are multiples of one unit, to which the sum with a number whose last bit is that unit rounds.
  const auto unit = static_cast<uint32_t>(127 + 1 - f.bias - f.mantissa_bits);
  const I centre = k((unit + 23) << 23);
  const I subnormal = o.ISub(o.Bits(o.Add(o.FromBits(magnitude), o.FromBits(centre))), centre);
  const I code = o.SelectI(o.ULt(magnitude, k(down + (1u << 23))), subnormal, normal);
  const auto overflows = o.ULt(k(f.max_finite()), code);
  if (f.specials == FloatSpecials::kNegZeroNan) {
    const I with_sign = o.SelectI(o.IEq(code, k(0)), k(0), o.Or(code, sign));
    return o.SelectI(o.BOr(overflows, is_nan), k(f.nan()), with_sign);
  }
  I result = o.SelectI(overflows, k(f.overflow()), code);
  result = o.SelectI(is_nan, k(f.nan()), result);
  return o.Xor(result, sign);
}

// `code`: bits above the format's width are ignored.
template <class Ops>
typename Ops::F DecodeFloat(const Ops& o, typename Ops::I code, const MiniFloat& f) {
  using I = typename Ops::I;
  const auto k = [&](uint32_t value) { return o.ConstI(value); };
  const I magnitude = o.And(code, k(f.magnitude_mask()));
  if (f.specials == FloatSpecials::kPowersOfTwo) {
    I bits = o.SelectI(o.IEq(magnitude, k(0)), k(0x00400000u), o.Shl(magnitude, k(23)));
    bits = o.SelectI(o.IEq(magnitude, k(f.nan())), k(formulas_internal::kNanBits), bits);
    return o.FromBits(bits);
  }
  const auto up = static_cast<uint32_t>(23 - f.mantissa_bits);
  const I sign_bit = o.And(code, k(f.sign_mask()));
  const I sign = o.Shl(sign_bit, k(static_cast<uint32_t>(31 - f.magnitude_bits())));
  if (f.bias == 127) return o.FromBits(o.Or(o.Shl(magnitude, k(up)), sign));  // bf16

  const I normal = o.IAdd(o.Shl(magnitude, k(up)), k(static_cast<uint32_t>(127 - f.bias) << 23));
  const float unit = std::bit_cast<float>(static_cast<uint32_t>(127 + 1 - f.bias - f.mantissa_bits) << 23);
  const I subnormal = o.Bits(o.Mul(o.FromIntS(magnitude), o.Const(unit)));
  I bits = o.SelectI(o.ULt(magnitude, k(1u << f.mantissa_bits)), subnormal, normal);
  if (f.specials == FloatSpecials::kNegZeroNan) {
    const auto is_nan = o.IEq(o.Or(magnitude, sign_bit), k(f.nan()));
    return o.FromBits(o.SelectI(is_nan, k(formulas_internal::kNanBits), o.Or(bits, sign)));
  }
  if (f.has_nan()) { bits = o.SelectI(o.ULt(k(f.max_finite()), magnitude), k(formulas_internal::kNanBits), bits); }
  if (f.has_inf()) bits = o.SelectI(o.IEq(magnitude, k(f.overflow())), k(0x7f800000u), bits);
  return o.FromBits(o.Or(bits, sign));
}

// HLO reduce-precision of an f32.
template <class Ops>
typename Ops::F ReducePrecision(const Ops& o, typename Ops::F x, int exponent_bits, int mantissa_bits) {
  using I = typename Ops::I;
  const auto k = [&](uint32_t value) { return o.ConstI(value); };
  const I bits = o.Bits(x);
  const I magnitude = o.And(bits, k(0x7fffffffu));
  I rounded = magnitude;
  if (mantissa_bits < 23) {
    const auto drop = static_cast<uint32_t>(23 - mantissa_bits);
    const I last = o.And(o.Shr(magnitude, k(drop)), k(1));
    rounded = o.IAdd(magnitude, o.IAdd(last, k((1u << (drop - 1)) - 1)));
    rounded = o.And(rounded, k(~((1u << drop) - 1)));
  }
  if (exponent_bits < 8) {
    const auto bias = static_cast<uint32_t>((1 << (exponent_bits - 1)) - 1);
    const I exponent = o.And(rounded, k(0x7f800000u));
    rounded = o.SelectI(o.ULe(exponent, k((127 - bias) << 23)), k(0), rounded);
    rounded = o.SelectI(o.ULt(k((127 + bias) << 23), exponent), k(0x7f800000u), rounded);
  }
  rounded = o.SelectI(o.ULt(k(0x7f800000u), magnitude), magnitude, rounded);
  return o.FromBits(o.Or(rounded, o.And(bits, k(formulas_internal::kSignBit))));
}

}  // namespace krafla
