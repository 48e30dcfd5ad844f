// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/builder_wide.h"

#include <algorithm>
#include <bit>

#include "krafla/status.h"

namespace krafla::spirv {
namespace {

using Pair = WordPair;

Value Bit(Builder& b, Value condition) { return b.Select(condition, b.U32(1), b.U32(0)); }
Value Join(Builder& b, const Pair& p) { return JoinPair(b, p.low, p.high); }

Pair Add(Builder& b, const Pair& x, const Pair& y) {
  const Value low = b.Add(x.low, y.low);
  const Value carry = Bit(b, b.Compare(Cmp::kULt, low, y.low));
  return {low, b.Add(b.Add(x.high, y.high), carry)};
}
Pair Sub(Builder& b, const Pair& x, const Pair& y) {
  const Value borrow = Bit(b, b.Compare(Cmp::kULt, x.low, y.low));
  return {b.Sub(x.low, y.low), b.Sub(b.Sub(x.high, y.high), borrow)};
}
Pair Mul(Builder& b, const Pair& x, const Pair& y) {
  const Value cross = b.Add(b.Mul(x.low, y.high), b.Mul(x.high, y.low));
  return {b.Mul(x.low, y.low), b.Add(b.UMulHi(x.low, y.low), cross)};
}
Pair SelectPair(Builder& b, Value c, const Pair& x, const Pair& y) {
  return {b.Select(c, x.low, y.low), b.Select(c, x.high, y.high)};
}
Pair Negate(Builder& b, const Pair& x) { return Sub(b, {b.U32(0), b.U32(0)}, x); }

Value Less(Builder& b, const Pair& x, const Pair& y, bool is_signed, bool or_equal) {
  const Value high = b.Compare(is_signed ? Cmp::kSLt : Cmp::kULt, x.high, y.high);
  const Value low = b.Compare(or_equal ? Cmp::kULe : Cmp::kULt, x.low, y.low);
  return b.LOr(high, b.LAnd(b.Compare(Cmp::kEq, x.high, y.high), low));
}
Value Equal(Builder& b, const Pair& x, const Pair& y) {
  return b.LAnd(b.Compare(Cmp::kEq, x.low, y.low), b.Compare(Cmp::kEq, x.high, y.high));
}

// Shifts by `amount`, which is below 64.
Pair ShiftLeft(Builder& b, const Pair& x, Value amount) {
  const Value far = b.Compare(Cmp::kUGe, amount, b.U32(32));
  const Value s = b.And(amount, b.U32(31)), rest = b.Sub(b.U32(31), s);
  const Value low = b.Shl(x.low, s);
  const Value high = b.Or(b.Shl(x.high, s), b.Shr(b.Shr(x.low, b.U32(1)), rest));
  return {b.Select(far, b.U32(0), low), b.Select(far, low, high)};
}
Pair ShiftRight(Builder& b, const Pair& x, Value amount, bool arithmetic) {
  const Value far = b.Compare(Cmp::kUGe, amount, b.U32(32));
  const Value s = b.And(amount, b.U32(31)), rest = b.Sub(b.U32(31), s);
  const Value high = arithmetic ? b.Sar(x.high, s) : b.Shr(x.high, s);
  const Value low = b.Or(b.Shr(x.low, s), b.Shl(b.Shl(x.high, b.U32(1)), rest));
  const Value fill = arithmetic ? b.Sar(x.high, b.U32(31)) : b.U32(0);
  return {b.Select(far, high, low), b.Select(far, fill, high)};
}

struct Division {
  Pair quotient, remainder;
};
// Long division, one bit in each turn. The divisor is not 0.
Division Divide(Builder& b, const Pair& x, const Pair& y) {
  const int width = std::max({x.low.width, x.high.width, y.low.width, y.high.width});
  const Value zero = b.Zero(Kind::kU32, width);
  const Values out = b.For(b.U32(0), b.U32(64), b.U32(1), {b.Splat(x.low, width), b.Splat(x.high, width), zero, zero},
                           [&](Value, const Values& s) {
                             // Shifts (remainder, dividend) left by one bit; the bits of the quotient come in on the
                             // right.
                             const Pair next = {b.Or(b.Shl(s[2], b.U32(1)), b.Shr(s[1], b.U32(31))),
                                                b.Or(b.Shl(s[3], b.U32(1)), b.Shr(s[2], b.U32(31)))};
                             // The bit that was shifted out of the remainder; where it is 1 the number is above any
                             // divisor.
                             const Value carried = b.Compare(Cmp::kNe, b.Shr(s[3], b.U32(31)), b.U32(0));
                             const Value fits = b.LOr(carried, b.LNot(Less(b, next, y, false, false)));
                             const Pair less = Sub(b, next, y);
                             const Pair kept = SelectPair(b, fits, less, next);
                             const Value high = b.Or(b.Shl(s[1], b.U32(1)), b.Shr(s[0], b.U32(31)));
                             return Values{b.Or(b.Shl(s[0], b.U32(1)), Bit(b, fits)), high, kept.low, kept.high};
                           });
  return {{out[0], out[1]}, {out[2], out[3]}};
}
Pair DivideSigned(Builder& b, const Pair& x, const Pair& y) {
  const Value x_negative = b.Compare(Cmp::kSLt, x.high, b.U32(0)), y_negative = b.Compare(Cmp::kSLt, y.high, b.U32(0));
  const Pair q =
      Divide(b, SelectPair(b, x_negative, Negate(b, x), x), SelectPair(b, y_negative, Negate(b, y), y)).quotient;
  return SelectPair(b, b.LNotEqual(x_negative, y_negative), Negate(b, q), q);
}

// Converts to f32 with one rounding to nearest even: takes the 24 bits from the highest 1 on, and rounds by the rest.
Value ToF32(Builder& b, const Pair& x) {
  const Value in_high = b.Compare(Cmp::kNe, x.high, b.U32(0));
  const Value top = b.FindUMsb(b.Select(in_high, x.high, x.low));
  const Value zeros = b.Add(b.Sub(b.U32(31), top), b.Select(in_high, b.U32(0), b.U32(32)));
  const Value is_zero = b.LAnd(b.LNot(in_high), b.Compare(Cmp::kEq, x.low, b.U32(0)));
  const Pair shifted = ShiftLeft(b, x, b.Select(is_zero, b.U32(0), zeros));
  const Value kept = b.Shr(shifted.high, b.U32(8));
  const Value sticky = Bit(b, b.Compare(Cmp::kNe, shifted.low, b.U32(0)));
  const Value cut = b.Or(b.Shl(b.And(shifted.high, b.U32(0xff)), b.U32(1)), sticky);
  const Value tie =
      b.LAnd(b.Compare(Cmp::kEq, cut, b.U32(0x100)), b.Compare(Cmp::kNe, b.And(kept, b.U32(1)), b.U32(0)));
  const Value up = b.LOr(b.Compare(Cmp::kUGt, cut, b.U32(0x100)), tie);
  const Value number = b.UToF(b.Add(kept, Bit(b, up)), Kind::kF32);  // at most 2^24: exact
  const Value scale = b.Bitcast(b.Shl(b.Sub(b.U32(127 + 40), zeros), b.U32(23)), Kind::kF32);
  return b.Select(is_zero, b.F32(0.0f), b.FMul(number, scale));
}
Value ToFloat(Builder& b, const Pair& x, bool is_signed, Kind kind) {
  if (kind == Kind::kF64) {
    // Both words are exact, the scaled one too, so that only the sum rounds.
    const Value high = is_signed ? b.SToF(x.high, kind) : b.UToF(x.high, kind);
    const Value scale = b.Float(kind, 0x1p32);
    return b.FAdd(b.FMul(high, scale), b.UToF(x.low, kind));
  }
  KRAFLA_CHECK(kind == Kind::kF32);
  if (!is_signed) return ToF32(b, x);
  const Value negative = b.Compare(Cmp::kSLt, x.high, b.U32(0));
  const Value size = ToF32(b, SelectPair(b, negative, Negate(b, x), x));
  return b.Select(negative, b.FNeg(size), size);
}
// Converts a number that is in range, rounding towards zero.
Pair FromFloat(Builder& b, Value v, bool is_signed) {
  const Value zero = b.Float(v.kind, 0);
  const Value negative = b.FCompare(FCmp::kLt, v, zero);
  const Value size = is_signed ? b.Select(negative, b.FNeg(v), v) : v;
  const Value high = b.FToU(b.FMul(size, b.Float(v.kind, 0x1p-32)), Kind::kU32);
  const Value rest = b.FSub(size, b.FMul(b.UToF(high, v.kind), b.Float(v.kind, 0x1p32)));  // exact
  const Pair out = {b.FToU(rest, Kind::kU32), high};
  return is_signed ? SelectPair(b, negative, Negate(b, out), out) : out;
}

// The amount of a shift as a u32: the low word.
Value Amount(Builder& b, Value s) { return WordPairs(b.m, s.kind) ? SplitPair(b, s).low : b.UConvert(s, Kind::kU32); }

}  // namespace

Pair SplitPair(Builder& b, Value v) {
  uint64_t bits;
  if (b.m.IsConstant(v, &bits)) {
    return {b.Splat(b.U32(static_cast<uint32_t>(bits)), v.width),
            b.Splat(b.U32(static_cast<uint32_t>(bits >> 32)), v.width)};
  }
  auto part = [&](uint32_t n) {
    const uint32_t words[] = {v.id, n};
    return Value{b.m.Pure(spv::Op::OpCompositeExtract, b.m.Type(Kind::kU32, v.width), words), Kind::kU32, v.width};
  };
  return {part(0), part(1)};
}

Value JoinPair(Builder& b, Value low, Value high) {
  const int width = std::max(low.width, high.width);
  uint64_t l, h;
  if (b.m.IsConstant(low, &l) && b.m.IsConstant(high, &h)) return b.Splat(b.m.Constant(Kind::kU64, h << 32 | l), width);
  const uint32_t words[] = {b.Splat(low, width).id, b.Splat(high, width).id};
  return Value{b.m.Pure(spv::Op::OpCompositeConstruct, b.m.Type(Kind::kU64, width), words), Kind::kU64,
               static_cast<uint8_t>(width)};
}

Value BinaryOfPairs(Builder& b, spv::Op op, Value a, Value c, Kind) {
  const Pair x = SplitPair(b, a);
  if (op == spv::Op::OpShiftLeftLogical) return Join(b, ShiftLeft(b, x, Amount(b, c)));
  if (op == spv::Op::OpShiftRightLogical) return Join(b, ShiftRight(b, x, Amount(b, c), false));
  if (op == spv::Op::OpShiftRightArithmetic) return Join(b, ShiftRight(b, x, Amount(b, c), true));
  const Pair y = SplitPair(b, c);
  if (op == spv::Op::OpIAdd) return Join(b, Add(b, x, y));
  if (op == spv::Op::OpISub) return Join(b, Sub(b, x, y));
  if (op == spv::Op::OpIMul) return Join(b, Mul(b, x, y));
  if (op == spv::Op::OpUDiv) return Join(b, Divide(b, x, y).quotient);
  if (op == spv::Op::OpUMod) return Join(b, Divide(b, x, y).remainder);
  if (op == spv::Op::OpSDiv) return Join(b, DivideSigned(b, x, y));
  if (op == spv::Op::OpBitwiseAnd) return JoinPair(b, b.And(x.low, y.low), b.And(x.high, y.high));
  if (op == spv::Op::OpBitwiseOr) return JoinPair(b, b.Or(x.low, y.low), b.Or(x.high, y.high));
  if (op == spv::Op::OpBitwiseXor) return JoinPair(b, b.Xor(x.low, y.low), b.Xor(x.high, y.high));
  if (op == spv::Op::OpIEqual) return Equal(b, x, y);
  if (op == spv::Op::OpINotEqual) return b.LNot(Equal(b, x, y));
  if (op == spv::Op::OpULessThan) return Less(b, x, y, false, false);
  if (op == spv::Op::OpULessThanEqual) return Less(b, x, y, false, true);
  if (op == spv::Op::OpUGreaterThan) return Less(b, y, x, false, false);
  if (op == spv::Op::OpUGreaterThanEqual) return Less(b, y, x, false, true);
  if (op == spv::Op::OpSLessThan) return Less(b, x, y, true, false);
  if (op == spv::Op::OpSLessThanEqual) return Less(b, x, y, true, true);
  if (op == spv::Op::OpSGreaterThan) return Less(b, y, x, true, false);
  KRAFLA_CHECK(op == spv::Op::OpSGreaterThanEqual);
  return Less(b, y, x, true, true);
}

Value UnaryOfPairs(Builder& b, spv::Op op, Value v, Kind kind) {
  if (v.kind != Kind::kU64) {
    if (op == spv::Op::OpBitcast) return BitcastPairs(b, v, kind, v.width);
    if (op == spv::Op::OpUConvert) return JoinPair(b, b.UConvert(v, Kind::kU32), b.Zero(Kind::kU32, v.width));
    if (op == spv::Op::OpSConvert) {
      const Value low = b.SConvert(v, Kind::kU32);
      return JoinPair(b, low, b.Sar(low, b.U32(31)));
    }
    KRAFLA_CHECK(op == spv::Op::OpConvertFToU || op == spv::Op::OpConvertFToS);
    return Join(b, FromFloat(b, v, op == spv::Op::OpConvertFToS));
  }
  if (op == spv::Op::OpBitcast) return BitcastPairs(b, v, kind, v.width);
  const Pair x = SplitPair(b, v);
  if (op == spv::Op::OpNot) return JoinPair(b, b.Not(x.low), b.Not(x.high));
  if (op == spv::Op::OpUConvert || op == spv::Op::OpSConvert) return b.UConvert(x.low, kind);
  KRAFLA_CHECK(op == spv::Op::OpConvertUToF || op == spv::Op::OpConvertSToF);
  return ToFloat(b, x, op == spv::Op::OpConvertSToF, kind);
}

Value BitcastPairs(Builder& b, Value v, Kind kind, int width) {
  Values lanes;
  if (v.kind == Kind::kU64) {
    const Pair x = SplitPair(b, v);
    Values words;
    for (int i = 0; i < v.width; ++i) {
      words.push_back(b.Extract(x.low, i));
      words.push_back(b.Extract(x.high, i));
    }
    if (kind == Kind::kU32) return b.Composite(words);
    KRAFLA_CHECK(kind == Kind::kF64 && width == v.width);
    for (int i = 0; i < width; ++i) {
      lanes.push_back(b.BitcastTo(b.Composite(std::span(words).subspan(static_cast<std::size_t>(2 * i), 2)), kind, 1));
    }
    return b.Composite(lanes);
  }
  KRAFLA_CHECK(kind == Kind::kU64);
  Values low, high;
  for (int i = 0; i < width; ++i) {
    const Value words = v.kind == Kind::kF64 ? b.BitcastTo(b.Extract(v, i), Kind::kU32, 2) : v;
    const int at = v.kind == Kind::kF64 ? 0 : 2 * i;
    low.push_back(b.Extract(words, at));
    high.push_back(b.Extract(words, at + 1));
  }
  return JoinPair(b, b.Composite(low), b.Composite(high));
}

}  // namespace krafla::spirv
