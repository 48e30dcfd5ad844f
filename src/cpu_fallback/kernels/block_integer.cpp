// SPDX-License-Identifier: Apache-2.0
// Integer ops as XLA defines them (hlo_evaluator_typed_visitor.h): everything wraps, x / 0 is all ones, x % 0 is x,
// MIN / -1 is MIN, shifts by an amount outside [0, bits) give 0 or the sign.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "cpu_fallback/kernels/block_families.h"
#include "numerics/formulas_int.h"
#include "numerics/reciprocal.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/block_integer.cpp"
#include <hwy/foreach_target.h>

#include "cpu_fallback/kernels/block_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

KRAFLA_BINARY(IntAdd, hn::Add(x, y))
KRAFLA_BINARY(IntSubtract, hn::Sub(x, y))
KRAFLA_BINARY(IntMultiply, hn::Mul(x, y))
KRAFLA_BINARY(IntAnd, hn::And(x, y))
KRAFLA_BINARY(IntOr, hn::Or(x, y))
KRAFLA_BINARY(IntXor, hn::Xor(x, y))
KRAFLA_BINARY(IntMaximum, hn::Max(x, y))
KRAFLA_BINARY(IntMinimum, hn::Min(x, y))
KRAFLA_UNARY(IntNot, hn::Not(x))
KRAFLA_UNARY(IntNegate, hn::Sub(hn::Zero(d), x))

struct IntAbs {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Do(D d, V x) {
    if constexpr (std::is_signed_v<hn::TFromD<D>>) {
      return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(hn::Zero(d), x), x);
    } else {
      return x;
    }
  }
};
struct IntSign {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Do(D d, V x) {
    if constexpr (std::is_signed_v<hn::TFromD<D>>) {
      return hn::Min(hn::Max(x, hn::Set(d, -1)), hn::Set(d, 1));
    } else {
      return hn::Min(x, hn::Set(d, 1));
    }
  }
};
// The amount is taken as unsigned: a negative one is out of range too.
template <bool kLeft>
struct IntShift {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Do(D d, V x, V y) {
    constexpr auto kBits = static_cast<hn::TFromD<D>>(sizeof(hn::TFromD<D>) * 8);
    const hn::RebindToUnsigned<D> du;
    const auto in = hn::Lt(hn::BitCast(du, y), hn::Set(du, kBits));
    const auto amount = hn::IfThenElseZero(in, hn::BitCast(du, y));
    const auto bits = hn::BitCast(du, x);
    const auto shifted = kLeft ? hn::Shl(bits, amount) : hn::Shr(bits, amount);
    return hn::BitCast(d, hn::IfThenElseZero(in, shifted));
  }
};

// By the definitions for one number.
#define KRAFLA_SCALAR_BINARY(Name, function) \
  struct Name {                              \
    template <class T>                       \
    static T Do(T x, T y) {                  \
      return krafla::function(x, y);         \
    }                                        \
  };
#define KRAFLA_SCALAR_UNARY(Name, function) \
  struct Name {                             \
    template <class T>                      \
    static T Do(T x) {                      \
      return krafla::function(x);           \
    }                                       \
  };
KRAFLA_SCALAR_BINARY(ScalarShiftRightArithmetic, ShiftRightArithmeticInt)
KRAFLA_SCALAR_BINARY(ScalarDivide, DivideInt)
KRAFLA_SCALAR_BINARY(ScalarRemainder, RemainderInt)

// Quotients of integers of at most half a float's mantissa, by way of floats: the quotient is at least 1 / y away from
// the next integer, further than the division's rounding goes. -1 is left to a negation: MIN / -1 has no room.
template <class T, bool kRemainder>
struct FloatQuotient {
  using Float = std::conditional_t<sizeof(T) <= 2, float, double>;
  using Word = std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>;
  using Unsigned = std::make_unsigned_t<T>;
  static T Finish(T x, T y, T quotient, bool is_negated) {
    const T q = is_negated ? static_cast<T>(Unsigned{0} - static_cast<Unsigned>(x)) : quotient;
    if constexpr (kRemainder) {
      const T rest = static_cast<T>(static_cast<Unsigned>(x) - static_cast<Unsigned>(static_cast<Unsigned>(q) * y));
      return y == 0 ? x : rest;
    } else {
      return y == 0 ? static_cast<T>(~T{0}) : q;
    }
  }
  static HWY_INLINE T Do(T x, T y) {
    const bool is_negated = std::is_signed_v<T> && y == static_cast<T>(-1);
    const T safe = y == 0 || is_negated ? T{1} : y;
    return Finish(x, y, static_cast<T>(static_cast<Word>(static_cast<Float>(x) / static_cast<Float>(safe))),
                  is_negated);
  }
};
// By one number: |x| * ceil(2^s / |y|) >> s with s = bits + ceil(log2 |y|), as in numerics/reciprocal.h: 2^s / |y| is
// rounded up by less than 1, which |x| <= 2^bits times stays below 2^bits * 2^ceil(log2 |y|) = 2^s, one quotient's
// worth over |y|.
template <class T, bool kRemainder>
void DivideByOneLoop(const BlockArgs& args) {
  using Unsigned = std::make_unsigned_t<T>;
  using Wide = std::conditional_t<sizeof(T) == 1, uint32_t, uint64_t>;
  const T* a = static_cast<const T*>(args.in[0]);
  const T y = *static_cast<const T*>(args.in[1]);
  T* out = static_cast<T*>(args.out);
  const int64_t n = args.n;
  if (y == 0) {
    KRAFLA_VECTOR_LOOP
    for (int64_t i = 0; i < n; ++i) out[i] = kRemainder ? a[i] : static_cast<T>(~T{0});
    return;
  }
  const Unsigned divisor =
      y < 0 ? static_cast<Unsigned>(Unsigned{0} - static_cast<Unsigned>(y)) : static_cast<Unsigned>(y);
  constexpr int kBits = sizeof(T) * 8 - (std::is_signed_v<T> ? 1 : 0);
  const int shift = kBits + std::bit_width(static_cast<Unsigned>(divisor - 1));
  const Wide factor = static_cast<Wide>(((uint64_t{1} << shift) + divisor - 1) / divisor);
  KRAFLA_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) {
    const T x = a[i];
    const bool is_negative = std::is_signed_v<T> && x < 0;
    const Unsigned size =
        is_negative ? static_cast<Unsigned>(Unsigned{0} - static_cast<Unsigned>(x)) : static_cast<Unsigned>(x);
    const Unsigned q = static_cast<Unsigned>((static_cast<Wide>(size) * factor) >> shift);
    if constexpr (kRemainder) {
      const Unsigned rest = static_cast<Unsigned>(size - static_cast<Unsigned>(q * divisor));
      out[i] = static_cast<T>(is_negative ? static_cast<Unsigned>(Unsigned{0} - rest) : rest);
    } else {
      out[i] =
          static_cast<T>(is_negative != (std::is_signed_v<T> && y < 0) ? static_cast<Unsigned>(Unsigned{0} - q) : q);
    }
  }
}
// A u32's factor has 33 bits: by way of doubles, whose quotient is further from the next integer than rounding goes;
// the reciprocal is taken a little up, so that whole quotients are reached.
template <bool kRemainder>
void DivideU32ByOneLoop(const BlockArgs& args) {
  using Quotient = FloatQuotient<uint32_t, kRemainder>;
  const uint32_t* a = static_cast<const uint32_t*>(args.in[0]);
  const uint32_t y = *static_cast<const uint32_t*>(args.in[1]);
  uint32_t* out = static_cast<uint32_t*>(args.out);
  const int64_t n = args.n;
  const double reciprocal = std::nextafter(1.0 / static_cast<double>(y == 0 ? 1u : y), 2.0);
  KRAFLA_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i)
    out[i] = Quotient::Finish(a[i], y, static_cast<uint32_t>(static_cast<double>(a[i]) * reciprocal), false);
}
// Of 64 bits the factor has 65, the highest of which is added by itself (Granlund and Montgomery, "Division by
// invariant integers using multiplication", 1994, figure 4.1): with l = ceil(log2 |y|) and m = floor(2^64 (2^l - |y|) /
// |y|) + 1 and t = m |x| >> 64 it is (t + ((|x| - t) >> 1)) >> (l - 1).
template <class T, bool kRemainder>
void DivideWideByOneLoop(const BlockArgs& args) {
  const T* a = static_cast<const T*>(args.in[0]);
  const T y = *static_cast<const T*>(args.in[1]);
  T* out = static_cast<T*>(args.out);
  const int64_t n = args.n;
  if (y == 0) {
    for (int64_t i = 0; i < n; ++i) out[i] = kRemainder ? a[i] : static_cast<T>(~T{0});
    return;
  }
  const uint64_t divisor = y < 0 ? uint64_t{0} - static_cast<uint64_t>(y) : static_cast<uint64_t>(y);
  const int log = std::bit_width(divisor - 1);
  const uint64_t excess = (log == 64 ? uint64_t{0} : uint64_t{1} << log) - divisor;
  const uint64_t factor = static_cast<uint64_t>((static_cast<unsigned __int128>(excess) << 64) / divisor) + 1;
  const int first_shift = std::min(log, 1), last_shift = std::max(log - 1, 0);
  const uint64_t low = factor & 0xffffffffu, high = factor >> 32;
  const uint64_t quotient_sign = y < 0 ? ~uint64_t{0} : 0;
  KRAFLA_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t x = static_cast<uint64_t>(a[i]);
    const uint64_t sign = std::is_signed_v<T> ? uint64_t{0} - (x >> 63) : 0;  // all ones: negative
    const uint64_t size = (x ^ sign) - sign;
    const uint64_t x0 = size & 0xffffffffu, x1 = size >> 32;
    const uint64_t middle = x1 * low + (x0 * low >> 32);
    const uint64_t t = x1 * high + (middle >> 32) + (((middle & 0xffffffffu) + x0 * high) >> 32);
    const uint64_t q = (t + ((size - t) >> first_shift)) >> last_shift;
    if constexpr (kRemainder) {
      out[i] = static_cast<T>(((size - q * divisor) ^ sign) - sign);
    } else {
      const uint64_t mask = sign ^ quotient_sign;
      out[i] = static_cast<T>((q ^ mask) - mask);
    }
  }
}
template <class T, bool kRemainder>
BlockFn PickDivide(unsigned uniform) {
  if (uniform == 0) return &ScalarBinaryLoop<T, FloatQuotient<T, kRemainder>>;
  if constexpr (std::is_same_v<T, uint32_t>) {
    if (uniform == 2) return &DivideU32ByOneLoop<kRemainder>;
  } else {
    if (uniform == 2) return &DivideByOneLoop<T, kRemainder>;
  }
  return nullptr;
}
KRAFLA_SCALAR_BINARY(ScalarPower, PowInt)
KRAFLA_SCALAR_BINARY(ScalarMulhi, MulhiInt)
KRAFLA_SCALAR_UNARY(ScalarClz, ClzInt)
KRAFLA_SCALAR_UNARY(ScalarPopcount, PopcntInt)

// What narrow lanes have too. What does not look at the sign is compiled for unsigned numbers only.
template <class T>
BlockFn FindPlain(const BlockKey& key) {
  using U = std::make_unsigned_t<T>;
  const unsigned u = key.uniform;
  if (key.opcode == Opcode::kAdd) return PickBinary<U, IntAdd, true>(u);
  if (key.opcode == Opcode::kSubtract) return PickBinary<U, IntSubtract>(u);
  if (key.opcode == Opcode::kMultiply) return PickBinary<U, IntMultiply, true>(u);
  if (key.opcode == Opcode::kAnd) return PickBinary<U, IntAnd, true>(u);
  if (key.opcode == Opcode::kOr) return PickBinary<U, IntOr, true>(u);
  if (key.opcode == Opcode::kXor) return PickBinary<U, IntXor, true>(u);
  if (key.opcode == Opcode::kMaximum) return PickBinary<T, IntMaximum, true>(u);
  if (key.opcode == Opcode::kMinimum) return PickBinary<T, IntMinimum, true>(u);
  if (key.opcode == Opcode::kNot) return PickUnary<U, IntNot>(u);
  if (key.opcode == Opcode::kNegate) return PickUnary<U, IntNegate>(u);
  if (key.opcode == Opcode::kAbs) return PickUnary<T, IntAbs>(u);
  if (key.opcode == Opcode::kSign) return PickUnary<T, IntSign>(u);
  if (key.opcode == Opcode::kClamp && u == 0) return &ClampLoop<T, false, IntMaximum, IntMinimum>;
  if (key.opcode == Opcode::kClamp && u == 5) return &ClampLoop<T, true, IntMaximum, IntMinimum>;
  if constexpr (sizeof(T) <= 4) {
    if (key.opcode == Opcode::kDivide) return PickDivide<T, false>(u);
    if (key.opcode == Opcode::kRemainder) return PickDivide<T, true>(u);
  } else {
    if (key.opcode == Opcode::kDivide)
      return u == 2 ? &DivideWideByOneLoop<T, false> : PickScalarBinary<T, ScalarDivide>(u);
    if (key.opcode == Opcode::kRemainder)
      return u == 2 ? &DivideWideByOneLoop<T, true> : PickScalarBinary<T, ScalarRemainder>(u);
  }
  return nullptr;
}
template <class T>
BlockFn FindNarrow(const BlockKey& key) {
  using U = std::make_unsigned_t<T>;
  const unsigned u = key.uniform;
  if (key.opcode == Opcode::kShiftLeft) return PickBinary<U, IntShift<true>>(u);
  if (key.opcode == Opcode::kShiftRightLogical) return PickBinary<U, IntShift<false>>(u);
  if (key.opcode == Opcode::kShiftRightArithmetic) return PickScalarBinary<T, ScalarShiftRightArithmetic>(u);
  return FindPlain<T>(key);
}
template <class T>
BlockFn FindOfWord(const BlockKey& key) {
  const unsigned u = key.uniform;
  if (key.opcode == Opcode::kPower) return PickScalarBinary<T, ScalarPower>(u);
  if (key.opcode == Opcode::kMulhi) return PickScalarBinary<T, ScalarMulhi>(u);
  if (key.opcode == Opcode::kClz) return PickScalarUnary<T, T, ScalarClz>(u);
  if (key.opcode == Opcode::kPopulationCount) return PickScalarUnary<T, T, ScalarPopcount>(u);
  return FindNarrow<T>(key);
}

BlockFn FindInteger(const BlockKey& key) {
  if (key.type == ElementType::kS32) return FindOfWord<int32_t>(key);
  if (key.type == ElementType::kU32) return FindOfWord<uint32_t>(key);
  if (key.type == ElementType::kS8) return FindNarrow<int8_t>(key);
  if (key.type == ElementType::kU8) return FindNarrow<uint8_t>(key);
  if (key.type == ElementType::kS16) return FindNarrow<int16_t>(key);
  if (key.type == ElementType::kU16) return FindNarrow<uint16_t>(key);
  if (key.type == ElementType::kS64) return FindOfWord<int64_t>(key);
  if (key.type == ElementType::kU64) return FindOfWord<uint64_t>(key);
  return nullptr;
}

// Index arithmetic.
void Ramp(int32_t* out, int64_t rows, int64_t columns, int64_t base, int64_t row_step, int64_t column_step) {
  const hn::ScalableTag<int32_t> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto step = hn::Set(d, static_cast<int32_t>(column_step * lanes));
  const auto first = hn::Mul(hn::Iota(d, 0), hn::Set(d, static_cast<int32_t>(column_step)));
  for (int64_t r = 0; r < rows; ++r, out += columns) {
    auto value = hn::Add(first, hn::Set(d, static_cast<int32_t>(base + r * row_step)));
    int64_t i = 0;
    for (; i + lanes <= columns; i += lanes, value = hn::Add(value, step)) hn::StoreU(value, d, out + i);
    if (i < columns) StoreSome(value, d, out + i, static_cast<std::size_t>(columns - i));
  }
}
void MulAdd(int32_t* out, const int32_t* a, int32_t factor, const int32_t* b, int64_t n) {
  const uint32_t f = static_cast<uint32_t>(factor);
  if (b == nullptr) {
    KRAFLA_VECTOR_LOOP
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<int32_t>(static_cast<uint32_t>(a[i]) * f);
  } else {
    KRAFLA_VECTOR_LOOP
    for (int64_t i = 0; i < n; ++i)
      out[i] = static_cast<int32_t>(static_cast<uint32_t>(a[i]) * f + static_cast<uint32_t>(b[i]));
  }
}
void Divide(int32_t* out, const int32_t* a, int32_t divisor, int64_t n) {
  const Reciprocal reciprocal(static_cast<uint64_t>(divisor));
  KRAFLA_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<int32_t>(reciprocal.Divide(static_cast<uint32_t>(a[i])));
}
void Modulus(int32_t* out, const int32_t* a, int32_t divisor, int64_t n) {
  const Reciprocal reciprocal(static_cast<uint64_t>(divisor));
  KRAFLA_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i)
    out[i] = a[i] - static_cast<int32_t>(reciprocal.Divide(static_cast<uint32_t>(a[i]))) * divisor;
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindInteger);
HWY_EXPORT(Ramp);
HWY_EXPORT(MulAdd);
HWY_EXPORT(Divide);
HWY_EXPORT(Modulus);
BlockFn FindIntegerBlock(const BlockKey& key) { return HWY_DYNAMIC_DISPATCH(FindInteger)(key); }
void BlockRamp(int32_t* out, int64_t rows, int64_t columns, int64_t base, int64_t row_step, int64_t column_step) {
  HWY_DYNAMIC_DISPATCH(Ramp)(out, rows, columns, base, row_step, column_step);
}
void BlockMulAdd(int32_t* out, const int32_t* a, int32_t factor, const int32_t* b, int64_t n) {
  HWY_DYNAMIC_DISPATCH(MulAdd)(out, a, factor, b, n);
}
void BlockDivide(int32_t* out, const int32_t* a, int32_t divisor, int64_t n) {
  HWY_DYNAMIC_DISPATCH(Divide)(out, a, divisor, n);
}
void BlockModulus(int32_t* out, const int32_t* a, int32_t divisor, int64_t n) {
  HWY_DYNAMIC_DISPATCH(Modulus)(out, a, divisor, n);
}
}  // namespace krafla::cpu
#endif
