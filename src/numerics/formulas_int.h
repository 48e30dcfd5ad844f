// SPDX-License-Identifier: Apache-2.0
// Integer operations with XLA's answers where the machine's are undefined (XLA: hlo_evaluator_typed_visitor.h,
// elemental_ir_emitter.cc). A value narrower than 32 bits is held sign-extended (signed types) or zero-extended
// (unsigned types) in I; `bits` is its width, and WrapS / WrapU brings a result back into it. Results of the
// functions below are wrapped already.
//
// DivideInt<T> and so on, at the end, are the same for one CPU value of any width up to 64 bits.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "numerics/ops_concept.h"

namespace krafla {

template <class Ops>
typename Ops::I WrapS(const Ops& o, typename Ops::I x, int bits) {
  if (bits == 32) return x;
  const auto shift = o.ConstI(static_cast<uint32_t>(32 - bits));
  return o.Sar(o.Shl(x, shift), shift);
}
template <class Ops>
typename Ops::I WrapU(const Ops& o, typename Ops::I x, int bits) {
  if (bits == 32) return x;
  return o.And(x, o.ConstI((1u << bits) - 1));
}

// x / 0 = -1; MIN / -1 = MIN.
template <class Ops>
typename Ops::I DivideS32(const Ops& o, typename Ops::I x, typename Ops::I y) {
  const auto zero = o.IEq(y, o.ConstI(0));
  const auto overflows = o.BAnd(o.IEq(x, o.ConstI(0x80000000u)), o.IEq(y, o.ConstI(0xffffffffu)));
  const auto safe = o.SelectI(o.BOr(zero, overflows), o.ConstI(1), y);
  return o.SelectI(zero, o.ConstI(0xffffffffu), o.SDiv(x, safe));
}
template <class Ops>
typename Ops::I DivideU32(const Ops& o, typename Ops::I x, typename Ops::I y) {
  const auto zero = o.IEq(y, o.ConstI(0));
  return o.SelectI(zero, o.ConstI(0xffffffffu), o.UDiv(x, o.SelectI(zero, o.ConstI(1), y)));
}
// x % 0 = x; MIN % -1 = 0; the sign is the dividend's.
template <class Ops>
typename Ops::I RemainderS32(const Ops& o, typename Ops::I x, typename Ops::I y) {
  const auto zero = o.IEq(y, o.ConstI(0));
  const auto overflows = o.BAnd(o.IEq(x, o.ConstI(0x80000000u)), o.IEq(y, o.ConstI(0xffffffffu)));
  const auto safe = o.SelectI(o.BOr(zero, overflows), o.ConstI(1), y);
  return o.SelectI(zero, x, o.ISub(x, o.IMul(o.SDiv(x, safe), safe)));
}
template <class Ops>
typename Ops::I RemainderU32(const Ops& o, typename Ops::I x, typename Ops::I y) {
  const auto zero = o.IEq(y, o.ConstI(0));
  const auto safe = o.SelectI(zero, o.ConstI(1), y);
  return o.SelectI(zero, x, o.ISub(x, o.IMul(o.UDiv(x, safe), safe)));
}
template <class Ops>
typename Ops::I DivideS(const Ops& o, typename Ops::I x, typename Ops::I y, int bits) {
  return WrapS(o, DivideS32(o, x, y), bits);
}
template <class Ops>
typename Ops::I DivideU(const Ops& o, typename Ops::I x, typename Ops::I y, int bits) {
  return WrapU(o, DivideU32(o, x, y), bits);
}

// An amount outside [0, bits), read as unsigned: 0, or the sign for the arithmetic shift.
template <class Ops>
typename Ops::I ShiftLeft(const Ops& o, typename Ops::I x, typename Ops::I amount, int bits, bool is_signed) {
  const auto inside = o.ULt(amount, o.ConstI(static_cast<uint32_t>(bits)));
  const auto shifted = o.Shl(x, o.SelectI(inside, amount, o.ConstI(0)));
  const auto result = o.SelectI(inside, shifted, o.ConstI(0));
  return is_signed ? WrapS(o, result, bits) : WrapU(o, result, bits);
}
template <class Ops>
typename Ops::I ShiftRightLogical(const Ops& o, typename Ops::I x, typename Ops::I amount, int bits, bool is_signed) {
  const auto inside = o.ULt(amount, o.ConstI(static_cast<uint32_t>(bits)));
  const auto shifted = o.Shr(WrapU(o, x, bits), o.SelectI(inside, amount, o.ConstI(0)));
  const auto result = o.SelectI(inside, shifted, o.ConstI(0));
  return is_signed ? WrapS(o, result, bits) : result;
}
template <class Ops>
typename Ops::I ShiftRightArithmetic(const Ops& o, typename Ops::I x, typename Ops::I amount, int bits,
                                     bool is_signed) {
  const auto last = o.ConstI(static_cast<uint32_t>(bits - 1));
  const auto shifted = o.Sar(WrapS(o, x, bits), o.SelectI(o.ULt(amount, last), amount, last));
  return is_signed ? shifted : WrapU(o, shifted, bits);
}

// Leading zeros of a value of `bits` bits; `bits` for 0.
template <class Ops>
typename Ops::I Clz(const Ops& o, typename Ops::I x, int bits = 32) {
  auto rest = bits == 32 ? x : o.Shl(x, o.ConstI(static_cast<uint32_t>(32 - bits)));
  auto count = o.ConstI(0);
  for (uint32_t step = 16; step > 0; step /= 2) {
    const auto empty = o.ULt(rest, o.ConstI(1u << (32 - step)));
    count = o.SelectI(empty, o.IAdd(count, o.ConstI(step)), count);
    rest = o.SelectI(empty, o.Shl(rest, o.ConstI(step)), rest);
  }
  count = o.SelectI(o.IEq(rest, o.ConstI(0)), o.ConstI(static_cast<uint32_t>(bits)), count);
  return count;
}

// Set bits of a value of `bits` bits.
template <class Ops>
typename Ops::I Popcnt(const Ops& o, typename Ops::I x, int bits = 32) {
  auto v = WrapU(o, x, bits);
  v = o.ISub(v, o.And(o.Shr(v, o.ConstI(1)), o.ConstI(0x55555555u)));
  v = o.IAdd(o.And(v, o.ConstI(0x33333333u)), o.And(o.Shr(v, o.ConstI(2)), o.ConstI(0x33333333u)));
  v = o.And(o.IAdd(v, o.Shr(v, o.ConstI(4))), o.ConstI(0x0f0f0f0fu));
  return o.Shr(o.IMul(v, o.ConstI(0x01010101u)), o.ConstI(24));
}

// The upper half of the signed 64-bit product.
template <class Ops>
typename Ops::I SMulHi(const Ops& o, typename Ops::I x, typename Ops::I y) {
  const auto zero = o.ConstI(0);
  auto hi = o.UMulHi(x, y);
  hi = o.ISub(hi, o.SelectI(o.SLt(x, zero), y, zero));
  return o.ISub(hi, o.SelectI(o.SLt(y, zero), x, zero));
}

// Six steps of square and multiply, as XLA: only six bits of the exponent count, so that x^64 = 1. An exponent with its
// sign bit set, of an unsigned type too, gives 0, but +-1 for x = +-1.
template <class Ops>
typename Ops::I IntPow(const Ops& o, typename Ops::I x, typename Ops::I y, int bits, bool is_signed) {
  const auto one = o.ConstI(1);
  const auto minus_one = o.ConstI(0xffffffffu);
  auto base = x;
  auto result = one;
  for (uint32_t i = 0; i < 6; ++i) {
    const auto set = o.INe(o.And(y, o.ConstI(1u << i)), o.ConstI(0));
    result = o.SelectI(set, o.IMul(result, base), result);
    if (i < 5) base = o.IMul(base, base);
  }
  const auto odd = o.INe(o.And(y, one), o.ConstI(0));
  auto inverse = o.SelectI(o.IEq(x, one), one, o.ConstI(0));
  inverse = o.SelectI(o.IEq(WrapS(o, x, bits), minus_one), o.SelectI(odd, minus_one, one), inverse);
  result = o.SelectI(o.SLt(WrapS(o, y, bits), o.ConstI(0)), inverse, result);
  return is_signed ? WrapS(o, result, bits) : WrapU(o, result, bits);
}

// ---- one CPU value -------------------------------------------------------------------------------------------------

template <std::integral T>
constexpr T DivideInt(T x, T y) {
  if (y == 0) return static_cast<T>(-1);
  if constexpr (std::is_signed_v<T>) {
    if (y == -1) return static_cast<T>(std::make_unsigned_t<T>{0} - static_cast<std::make_unsigned_t<T>>(x));
  }
  return static_cast<T>(x / y);
}
template <std::integral T>
constexpr T RemainderInt(T x, T y) {
  if (y == 0) return x;
  if constexpr (std::is_signed_v<T>) {
    if (y == -1) return 0;
  }
  return static_cast<T>(x % y);
}
// `bits` is the logical width (4 for s4 in an int8_t). The amount is read as unsigned.
template <std::integral T>
constexpr T WrapInt(T x, int bits) {
  using U = std::make_unsigned_t<T>;
  const int spare = static_cast<int>(sizeof(T)) * 8 - bits;
  return static_cast<T>(static_cast<T>(static_cast<U>(static_cast<U>(x) << spare)) >> spare);
}
template <std::integral T>
constexpr T ShiftLeftInt(T x, T amount, int bits = static_cast<int>(sizeof(T)) * 8) {
  using U = std::make_unsigned_t<T>;
  const U by = static_cast<U>(amount);
  if (by >= static_cast<U>(bits)) return 0;
  return WrapInt(static_cast<T>(static_cast<U>(static_cast<uint64_t>(static_cast<U>(x)) << by)), bits);
}
template <std::integral T>
constexpr T ShiftRightLogicalInt(T x, T amount, int bits = static_cast<int>(sizeof(T)) * 8) {
  using U = std::make_unsigned_t<T>;
  const U by = static_cast<U>(amount);
  if (by >= static_cast<U>(bits)) return 0;
  const U mask = static_cast<U>(static_cast<U>(~U{0}) >> (sizeof(T) * 8 - static_cast<unsigned>(bits)));
  return WrapInt(static_cast<T>(static_cast<U>((static_cast<U>(x) & mask) >> by)), bits);
}
template <std::integral T>
constexpr T ShiftRightArithmeticInt(T x, T amount, int bits = static_cast<int>(sizeof(T)) * 8) {
  using U = std::make_unsigned_t<T>;
  using S = std::make_signed_t<T>;
  const U by = static_cast<U>(amount) < static_cast<U>(bits) ? static_cast<U>(amount) : static_cast<U>(bits - 1);
  const S value = WrapInt(static_cast<S>(x), bits);
  return WrapInt(static_cast<T>(value >> by), bits);
}
template <std::integral T>
constexpr T ClzInt(T x, int bits = static_cast<int>(sizeof(T)) * 8) {
  using U = std::make_unsigned_t<T>;
  const U placed =
      static_cast<U>(static_cast<uint64_t>(static_cast<U>(x)) << (sizeof(T) * 8 - static_cast<unsigned>(bits)));
  return static_cast<T>(placed == 0 ? bits : std::countl_zero(placed));
}
template <std::integral T>
constexpr T PopcntInt(T x) {
  return static_cast<T>(std::popcount(static_cast<std::make_unsigned_t<T>>(x)));
}
template <std::integral T>
constexpr T PowInt(T x, T y, int bits = static_cast<int>(sizeof(T)) * 8) {
  using U = std::make_unsigned_t<T>;
  using S = std::make_signed_t<T>;
  const S base_signed = WrapInt(static_cast<S>(x), bits);
  if (WrapInt(static_cast<S>(y), bits) < 0) {
    const bool odd = (y & 1) != 0;
    return WrapInt(static_cast<T>(base_signed == 1 ? 1 : base_signed == -1 ? (odd ? -1 : 1) : 0), bits);
  }
  uint64_t base = static_cast<U>(x);
  uint64_t result = 1;
  for (int i = 0; i < 6; ++i) {
    if ((static_cast<uint64_t>(y) >> i & 1) != 0) result *= base;
    base *= base;
  }
  return WrapInt(static_cast<T>(result), bits);
}
// The upper half of the product at twice the width.
template <std::integral T>
constexpr T MulhiInt(T x, T y) {
  if constexpr (sizeof(T) < 8) {
    using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    return static_cast<T>((static_cast<Wide>(x) * static_cast<Wide>(y)) >> (sizeof(T) * 8));
  } else {
    const uint64_t a = static_cast<uint64_t>(x), b = static_cast<uint64_t>(y);
    const uint64_t a_lo = a & 0xffffffffu, a_hi = a >> 32, b_lo = b & 0xffffffffu, b_hi = b >> 32;
    const uint64_t middle = a_hi * b_lo + (a_lo * b_lo >> 32);
    const uint64_t middle2 = a_lo * b_hi + (middle & 0xffffffffu);
    uint64_t hi = a_hi * b_hi + (middle >> 32) + (middle2 >> 32);
    if constexpr (std::is_signed_v<T>) {
      if (x < 0) hi -= b;
      if (y < 0) hi -= a;
    }
    return static_cast<T>(hi);
  }
}

}  // namespace krafla
