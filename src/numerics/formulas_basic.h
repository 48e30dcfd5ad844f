// SPDX-License-Identifier: Apache-2.0
// What every formula uses, and the operations whose own SPIR-V instruction is not good enough: max and min, sign, the
// roundings, clamp, float -> integer.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "numerics/ops_concept.h"

namespace krafla {

namespace formulas_internal {
inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kMinNormal = 0x1p-126f;
inline constexpr uint32_t kNanBits = 0x7fc00000u;
inline constexpr uint32_t kSignBit = 0x80000000u;

template <class Ops>
typename Ops::F Nan(const Ops& o) {
  return o.FromBits(o.ConstI(kNanBits));
}

template <class Ops>
typename Ops::F MulAdd(const Ops& o, typename Ops::F a, typename Ops::F b, typename Ops::F c) {
  return o.Add(o.Mul(a, b), c);
}

// c[0] + x * (c[1] + x * (...)).
template <class Ops, std::size_t N>
typename Ops::F Poly(const Ops& o, typename Ops::F x, const float (&c)[N]) {
  typename Ops::F sum = o.Const(c[N - 1]);
  for (std::size_t i = N - 1; i-- > 0;) sum = o.Add(o.Mul(sum, x), o.Const(c[i]));
  return sum;
}

template <class Ops>
typename Ops::I SignOf(const Ops& o, typename Ops::F x) {
  return o.And(o.Bits(x), o.ConstI(kSignBit));
}
// `x`, whose sign bit is clear, with the sign of `from`.
template <class Ops>
typename Ops::F WithSign(const Ops& o, typename Ops::F x, typename Ops::F from) {
  return o.FromBits(o.Or(o.Bits(x), SignOf(o, from)));
}

// The upper 12 bits of the significand: products of two such numbers, or of one and a 12-bit rest, are exact.
template <class Ops>
typename Ops::F Upper12(const Ops& o, typename Ops::F x) {
  return o.FromBits(o.And(o.Bits(x), o.ConstI(0xfffff000u)));
}
}  // namespace formulas_internal

template <class Ops>
typename Ops::B IsFinite(const Ops& o, typename Ops::F x) {
  return o.ULt(o.And(o.Bits(x), o.ConstI(0x7fffffffu)), o.ConstI(0x7f800000u));
}

// NaN wins over a number; +0 is greater than -0.
template <class Ops>
typename Ops::F Max(const Ops& o, typename Ops::F x, typename Ops::F y) {
  auto r = o.Select(o.Gt(x, y), x, y);
  r = o.Select(o.Eq(x, y), o.FromBits(o.And(o.Bits(x), o.Bits(y))), r);
  return o.Select(o.Ne(x, x), x, r);
}
template <class Ops>
typename Ops::F Min(const Ops& o, typename Ops::F x, typename Ops::F y) {
  auto r = o.Select(o.Lt(x, y), x, y);
  r = o.Select(o.Eq(x, y), o.FromBits(o.Or(o.Bits(x), o.Bits(y))), r);
  return o.Select(o.Ne(x, x), x, r);
}
// min(max(low, x), high), also where low > high; a NaN among the operands is the result.
template <class Ops>
typename Ops::F Clamp(const Ops& o, typename Ops::F low, typename Ops::F x, typename Ops::F high) {
  return Min(o, Max(o, low, x), high);
}

// -1, -0, +0, 1, NaN.
template <class Ops>
typename Ops::F Sign(const Ops& o, typename Ops::F x) {
  const auto one = formulas_internal::WithSign(o, o.Const(1.0f), x);
  return o.Select(o.Gt(o.Abs(x), o.Const(0.0f)), one, x);
}

// The native roundings with the sign of the operand: ceil(-0.2) is -0.
template <class Ops>
typename Ops::F Floor(const Ops& o, typename Ops::F x) {
  return formulas_internal::WithSign(o, o.Abs(o.Floor(x)), x);
}
template <class Ops>
typename Ops::F Ceil(const Ops& o, typename Ops::F x) {
  return o.Neg(Floor(o, o.Neg(x)));
}
template <class Ops>
typename Ops::F RoundNearestEven(const Ops& o, typename Ops::F x) {
  return formulas_internal::WithSign(o, o.Abs(o.RoundEven(x)), x);
}
template <class Ops>
typename Ops::F Trunc(const Ops& o, typename Ops::F x) {
  return formulas_internal::WithSign(o, o.Abs(o.Trunc(x)), x);
}
// Ties away from zero: 0.5 -> 1, -2.5 -> -3, 0.49999997 -> 0.
template <class Ops>
typename Ops::F RoundNearestAfz(const Ops& o, typename Ops::F x) {
  const auto magnitude = o.Abs(x);
  const auto whole = o.Trunc(magnitude);
  const auto up = o.Select(o.Ge(o.Sub(magnitude, whole), o.Const(0.5f)), o.Const(1.0f), o.Const(0.0f));
  const auto rounded = formulas_internal::WithSign(o, o.Add(whole, up), x);
  return o.Select(o.Lt(magnitude, o.Const(0x1p23f)), rounded, x);
}

// To a signed integer of `bits` bits (2..32), sign-extended in I: truncates, saturates, NaN -> 0.
template <class Ops>
typename Ops::I FloatToIntS(const Ops& o, typename Ops::F x, int bits = 32) {
  const float limit = static_cast<float>(uint64_t{1} << (bits - 1));
  // The largest float that converts: limit - 1 where that is a float.
  const float high = bits > 25 ? std::bit_cast<float>(std::bit_cast<uint32_t>(limit) - 1) : limit - 1.0f;
  auto safe = o.Select(o.Lt(x, o.Const(limit)), x, o.Const(high));
  safe = o.Select(o.Gt(safe, o.Const(-limit)), safe, o.Const(-limit));
  safe = o.Select(o.Ne(x, x), o.Const(0.0f), safe);
  const auto top = o.ConstI(static_cast<uint32_t>((uint64_t{1} << (bits - 1)) - 1));
  return o.SelectI(o.Ge(x, o.Const(limit)), top, o.ToIntS(safe));
}
// To an unsigned integer of `bits` bits (1..32), zero-extended in I.
template <class Ops>
typename Ops::I FloatToIntU(const Ops& o, typename Ops::F x, int bits = 32) {
  const float limit = static_cast<float>(uint64_t{1} << bits);
  const float high = bits > 24 ? std::bit_cast<float>(std::bit_cast<uint32_t>(limit) - 1) : limit - 1.0f;
  auto safe = o.Select(o.Lt(x, o.Const(limit)), x, o.Const(high));
  safe = o.Select(o.Gt(safe, o.Const(0.0f)), safe, o.Const(0.0f));  // also NaN
  safe = o.Select(o.Ne(x, x), o.Const(0.0f), safe);
  const auto top = o.ConstI(static_cast<uint32_t>((uint64_t{1} << bits) - 1));
  return o.SelectI(o.Ge(x, o.Const(limit)), top, o.ToIntU(safe));
}

}  // namespace krafla
