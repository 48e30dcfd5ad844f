// SPDX-License-Identifier: Apache-2.0
// Conversions: between compute types, to the precision of a storage type, and from and to what is stored.
#include <bit>
#include <cmath>

#include "cpu_fallback/native/lane_builder.h"
#include "cpu_fallback/native/native_code.h"
#include "ir/mini_float.h"
#include "numerics/nan.h"

namespace krafla::cpu::native {

const MiniFloat* ByteFormat(ElementType storage) {
  return StorageBytes(storage) == 1 ? FindMiniFloat(storage) : nullptr;
}

// A float made of an integer of 8 bits, which are all that bf16 has.
bool LaneBuilder::IsOfAByte(int id) const {
  if (node(id).op != LaneOp::kIntToFloat) return false;
  const LaneNode& integer = node(node(id).a);
  return integer.op == LaneOp::kExtend && StorageBytes(TypeOf(integer.a)) == 1;
}

std::optional<LaneBuilder::Value> LaneBuilder::Converted(ElementType to, Value x) {
  const ElementType from = TypeOf(x.node);
  if (from == to) return x;
  if (to == ElementType::kPred && IsFloat(from)) {
    // By the bits but the sign: to a comparison, subnormal numbers may be zeros. A NaN is true, whatever its bits.
    const ElementType word = UnsignedOfWidth(StorageBytes(from));
    const int magnitude = Add(LaneOp::kShl, word, Bitcast(x.node, word), Constant(word, 1));
    return Value{Compare(LaneOp::kNe, magnitude, Constant(word, 0))};
  }
  if (to == ElementType::kPred) return Value{Compare(LaneOp::kNe, x.node, Constant(from, 0))};
  if (from == ElementType::kPred) return Value{Select(x.node, ConstantOf(to, 1), ConstantOf(to, 0))};
  const int from_width = StorageBytes(from), to_width = StorageBytes(to);
  if (IsFloat(from) && IsFloat(to)) {
    const int number = Add(LaneOp::kFloatToFloat, to, x.node);
    // A pending NaN stays one, of whatever sign.
    if (x.nans == Nans::kPending) return Value{number, Nans::kPending};
    return Value{number, Nans::kSigned};
  }
  if (IsFloat(from)) {
    if (to_width >= 4) return Value{Add(LaneOp::kFloatToInt, to, x.node)};
    const ElementType word = ElementType::kS32;
    const int bits = BitWidth(to);
    const int64_t low = IsSigned(to) ? -(int64_t{1} << (bits - 1)) : 0,
                  high = (int64_t{1} << (IsSigned(to) ? bits - 1 : bits)) - 1;
    int v = Add(LaneOp::kFloatToInt, word, x.node);
    v = Add(LaneOp::kMin, word, Add(LaneOp::kMax, word, v, Constant(word, static_cast<uint64_t>(low))),
            Constant(word, static_cast<uint64_t>(high)));
    return Value{Add(LaneOp::kTruncate, to, v)};
  }
  if (IsFloat(to)) {
    if (from_width >= 4) return Value{Add(LaneOp::kIntToFloat, to, x.node)};
    return Value{Add(LaneOp::kIntToFloat, to, Add(LaneOp::kExtend, ElementType::kS32, x.node))};
  }
  if (to_width == from_width) return Value{Bitcast(x.node, to)};
  return Value{Add(to_width > from_width ? LaneOp::kExtend : LaneOp::kTruncate, to, x.node)};
}

// Whether the lower half of its bits is zero if it is a NaN: rounding to the upper half then carries none of them away.
// A NaN that an operation gives has the bits of an operand's, or of the processor's own.
bool LaneBuilder::HasShortNans(int id, int depth) const {
  const LaneNode& n = node(id);
  const auto has_zeros = [&](const LaneNode& bits, LaneOp op, uint64_t constant) {
    return bits.op == op && bits.type == ElementType::kU32 && node(bits.b).op == LaneOp::kConstant &&
           node(bits.b).bits == constant;
  };
  if (n.op == LaneOp::kIntToFloat || n.op == LaneOp::kRoundToBf16 || fits_bf16_.contains(id)) return true;
  if (n.op == LaneOp::kConstant) return (n.bits & 0xffff) == 0 || HoldsNoNan(id);
  if (n.op == LaneOp::kBitcast)
    return has_zeros(node(n.a), LaneOp::kShl, 16) || has_zeros(node(n.a), LaneOp::kAnd, 0xffff0000u);
  if (n.op == LaneOp::kAdd || n.op == LaneOp::kSub || n.op == LaneOp::kMul || n.op == LaneOp::kDiv)
    return depth > 0 && HasShortNans(n.a, depth - 1) && HasShortNans(n.b, depth - 1);
  return false;
}

// f64 to f32 rounded to odd: what is then rounded to a mantissa of at most 22 bits is rounded once (Boldo and
// Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
LaneBuilder::Value LaneBuilder::RoundedToOdd(Value x) {
  const ElementType f = ElementType::kF32, u = ElementType::kU32, wide = ElementType::kF64;
  const int nearest = Add(LaneOp::kFloatToFloat, f, x.node), back = Add(LaneOp::kFloatToFloat, wide, nearest);
  const int bits = Bitcast(nearest, u);
  const int away = Compare(LaneOp::kLt, Add(LaneOp::kAbs, wide, x.node), Add(LaneOp::kAbs, wide, back));
  const int toward_zero = Select(away, Add(LaneOp::kSub, u, bits, Constant(u, 1)), bits);
  const int odd = Add(LaneOp::kOr, u, toward_zero, Constant(u, 1));
  // Of a NaN neither: it stays.
  const int inexact =
      Add(LaneOp::kOr, ElementType::kPred, Compare(LaneOp::kLt, back, x.node), Compare(LaneOp::kLt, x.node, back));
  return {Bitcast(Select(inexact, odd, bits), f), x.nans == Nans::kPending ? Nans::kPending : Nans::kSigned};
}

// f64 to the nearest number of bf16, as an f64: normal ones by their bits, smaller ones at the place of the smallest.
LaneBuilder::Value LaneBuilder::DoubleRoundedToBf16(Value x) {
  const ElementType f = ElementType::kF64, u = ElementType::kU64;
  constexpr uint64_t kDropped = 52 - 7;
  const int bits = Bitcast(x.node, u);
  const int odd = Add(LaneOp::kAnd, u, Add(LaneOp::kShr, u, bits, Constant(u, kDropped)), Constant(u, 1));
  const int half = Constant(u, (uint64_t{1} << (kDropped - 1)) - 1);
  const int up = Add(LaneOp::kAdd, u, Add(LaneOp::kAdd, u, bits, half), odd);
  const int near = Bitcast(Add(LaneOp::kAnd, u, up, Constant(u, ~uint64_t{0} << kDropped)), f);
  const int magic = ConstantOf(f, 0x1.8p-81);  // in whose sums the last place is 2^-133
  const int placed = Add(LaneOp::kSub, f, Add(LaneOp::kAdd, f, x.node, magic), magic);
  const int sign = Add(LaneOp::kAnd, u, bits, Constant(u, uint64_t{1} << 63));
  const int small = Bitcast(Add(LaneOp::kOr, u, Bitcast(placed, u), sign), f);
  // A NaN is not normal: it stays one, of its sign.
  const int is_normal = Compare(LaneOp::kLe, ConstantOf(f, 0x1p-126), Add(LaneOp::kAbs, f, x.node));
  return {Select(is_normal, near, small), x.nans == Nans::kPending ? Nans::kPending : Nans::kSigned};
}

int LaneBuilder::RoundedToBf16(int x) {
  const ElementType f = ElementType::kF32, u = ElementType::kU32;
  if (HasAvx512Code()) return Add(LaneOp::kRoundToBf16, f, x);
  const int bits = Bitcast(x, u);
  const int odd = Add(LaneOp::kAnd, u, Add(LaneOp::kShr, u, bits, Constant(u, 16)), Constant(u, 1));
  const int up = Add(LaneOp::kAdd, u, Add(LaneOp::kAdd, u, bits, Constant(u, 0x7fff)), odd);
  return Bitcast(Add(LaneOp::kAnd, u, up, Constant(u, 0xffff0000u)), f);
}

// The f16 that an f32 is, or that the processor's arithmetic of f16 makes in its place: an operation that rounds twice,
// first to more than twice the digits, gives what it gives rounded once. Nothing: there is none.
std::optional<int> LaneBuilder::HalfNumber(int x) {
  const ElementType h = ElementType::kF16;
  const auto loaded = [&](int id) -> std::optional<int> {
    const LaneNode n = node(id);
    if (n.op == LaneOp::kHalfToFloat) return Bitcast(n.a, h);
    if (n.op != LaneOp::kConstant || n.type != ElementType::kF32) return std::nullopt;
    const float number = std::bit_cast<float>(static_cast<uint32_t>(n.bits));
    const uint32_t bits = EncodeMiniFloat(number, kF16Format);
    const bool is_same = std::bit_cast<uint32_t>(DecodeMiniFloat(bits, kF16Format)) == static_cast<uint32_t>(n.bits);
    return is_same && number == number ? std::optional(Constant(h, bits)) : std::nullopt;
  };
  const LaneNode n = node(x);
  if (!HasHalfArithmetic() || n.type != ElementType::kF32) return std::nullopt;
  if (n.op == LaneOp::kHalfToFloat) return loaded(x);
  if (n.op == LaneOp::kSettle) {
    const std::optional<int> number = HalfNumber(n.a);
    return number ? std::optional(Add(LaneOp::kSettle, h, *number)) : std::nullopt;
  }
  // Quotients and roots of f16 take longer than twice as many vectors of f32 do: 41 cycles of 32 of them on Sapphire
  // Rapids, where 16 of f32 take 10.
  if (n.op != LaneOp::kAdd && n.op != LaneOp::kSub && n.op != LaneOp::kMul) return std::nullopt;
  const std::optional<int> a = loaded(n.a), b = loaded(n.b);
  return a && b ? std::optional(Add(n.op, h, *a, *b)) : std::nullopt;
}
int LaneBuilder::Half(int x) {
  const ElementType bits = ElementType::kU16;
  // A loaded NaN is made a quiet one.
  const std::optional<int> number = node(x).op == LaneOp::kHalfToFloat ? std::nullopt : HalfNumber(x);
  return number ? Bitcast(*number, bits) : Add(LaneOp::kFloatToHalf, bits, x);
}

std::optional<LaneBuilder::Value> LaneBuilder::Rounded(Value x, ElementType storage) {
  const ElementType f = ElementType::kF32;
  // Masks that are as wide as what was compared would be made narrower for what f32 has in the other way.
  if (TypeOf(x.node) == ElementType::kF64 && storage == ElementType::kBF16 && !HasAvx512Code())
    return Converted(f, DoubleRoundedToBf16(x));
  if (TypeOf(x.node) == ElementType::kF64) x = RoundedToOdd(x);
  if (TypeOf(x.node) != f) return std::nullopt;
  if (storage == ElementType::kF16) {
    const int half = Half(x.node);
    const int number = Add(LaneOp::kHalfToFloat, f, half);
    return Value{number, x.nans == Nans::kPending ? Nans::kPending : Nans::kSigned};
  }
  if (storage == ElementType::kBF16) {
    if (IsOfAByte(x.node) || fits_bf16_.contains(x.node)) return x;
    const int number = RoundedToBf16(x.node);
    if (x.nans == Nans::kPending && HasShortNans(x.node)) return Value{number, Nans::kPending};
    // The rounding may carry a NaN's bits away.
    if (x.nans == Nans::kPending)
      return Value{Select(Compare(LaneOp::kEq, x.node, x.node), number, Constant(f, kNanF32))};
    return Value{QuietNanOf(x.node, number)};
  }
  if (const MiniFloat* format = ByteFormat(storage))
    return Value{DecodeFrom(*this, EncodeAs(*this, Seen(x), *format), *format)};
  return std::nullopt;
}

// A format of a byte with four or five bits of exponent is a part of f16's numbers but for its bias: its bits, moved to
// where f16 has them, are converted by the processor, subnormal ones too, and multiplied by a power of two, which is
// exact. Its own NaNs, which f16 takes for numbers, are put back.
std::optional<LaneBuilder::Value> LaneBuilder::DecodedAsHalf(int code, const MiniFloat& format) {
  const ElementType f = ElementType::kF32, u = ElementType::kU32;
  const MiniFloat& half = kF16Format;
  const bool is_ieee = format.has_inf();
  if (format.magnitude_bits() != 7 || !format.has_sign() || format.specials == FloatSpecials::kFinite ||
      format.exponent_bits > half.exponent_bits || format.exponent_bits < half.exponent_bits - 1)
    return std::nullopt;
  // The highest exponent is infinity and NaN in f16, and has to be so here, or has to be out of reach.
  if (is_ieee != (format.exponent_bits == half.exponent_bits)) return std::nullopt;
  int bits = Add(LaneOp::kShl, u, code, Constant(u, static_cast<uint64_t>(half.mantissa_bits - format.mantissa_bits)));
  if (!is_ieee) {
    // The sign is one place too low: added to itself it moves up.
    bits = Add(LaneOp::kAdd, u, bits, Add(LaneOp::kAnd, u, bits, Constant(u, half.sign_mask() >> 1)));
  }
  int number = Add(LaneOp::kHalfToFloat, f, Add(LaneOp::kTruncate, ElementType::kU16, bits));
  if (format.bias != half.bias)
    number = Add(LaneOp::kMul, f, number, ConstantOf(f, std::ldexp(1.0, half.bias - format.bias)));
  if (is_ieee) return Value{number, Nans::kSigned};
  if (format.specials == FloatSpecials::kNegZeroNan)
    return Value{Select(Compare(LaneOp::kEq, code, Constant(u, format.nan())), Constant(f, kNanF32), number)};
  const int magnitude = Add(LaneOp::kAnd, u, code, Constant(u, format.magnitude_mask()));
  const int is_nan = Compare(LaneOp::kEq, magnitude, Constant(u, format.nan()));
  const int with = Select(is_nan, Constant(u, kNanF32), Constant(u, 0));
  return Value{Bitcast(Add(LaneOp::kOr, u, Bitcast(number, u), with), f), Nans::kSigned};
}

// `code`: a u8, or a u32 of so much.
LaneBuilder::Value LaneBuilder::Decoded(int code, ElementType storage) {
  const MiniFloat& format = *FindMiniFloat(storage);
  const bool has_tables = HasByteShuffles() && lanes_ == 0 && format.has_sign() && format.magnitude_bits() == 7 &&
                          format.specials != FloatSpecials::kNegZeroNan;
  Value out;
  if (has_tables) {
    const int byte = TypeOf(code) == ElementType::kU8 ? code : Add(LaneOp::kTruncate, ElementType::kU8, code);
    out = Value{Add({LaneOp::kByteToFloat, ElementType::kF32, byte, -1, -1, static_cast<uint64_t>(storage)})};
  } else {
    const int word = TypeOf(code) == ElementType::kU8 ? Add(LaneOp::kExtend, ElementType::kU32, code) : code;
    const std::optional<Value> as_half = DecodedAsHalf(word, format);
    out = as_half ? *as_half : Value{DecodeFrom(*this, word, format)};
  }
  fits_bf16_.insert(out.node);
  return out;
}

std::optional<LaneBuilder::Value> LaneBuilder::Widen(int stored, ElementType storage) {
  const ElementType f = ElementType::kF32, u = ElementType::kU32;
  if (ByteFormat(storage) != nullptr) return Decoded(stored, storage);
  if (storage == ElementType::kF16) { return Value{Add(LaneOp::kHalfToFloat, f, stored), Nans::kSigned}; }
  if (storage == ElementType::kBF16)
    return Value{Bitcast(Add(LaneOp::kShl, u, Add(LaneOp::kExtend, u, stored), Constant(u, 16)), f)};
  if (IsIntegral(storage) && StorageBytes(storage) < 4)
    return Value{Add(LaneOp::kExtend, IsSigned(storage) ? ElementType::kS32 : ElementType::kU32, stored)};
  return std::nullopt;
}

std::optional<int> LaneBuilder::Narrow(Value value, ElementType storage, bool rounds) {
  if (const MiniFloat* format = ByteFormat(storage)) {
    if (TypeOf(value.node) != ElementType::kF32) return std::nullopt;
    return Add(LaneOp::kTruncate, ElementType::kU8, EncodeAs(*this, Seen(value), *format));
  }
  if (rounds) {
    if (storage == ElementType::kF16) {
      const int x = value.nans == Nans::kPending ? Settle(value.node) : QuietNanOf(value.node, value.node);
      return Half(x);
    }
    if (storage != ElementType::kBF16) return std::nullopt;
    const std::optional<Value> rounded = Rounded(value, storage);
    if (!rounded) return std::nullopt;
    value = *rounded;
  }
  const int x = Seen(value);
  const ElementType u = ElementType::kU32;
  if (storage == ElementType::kF16) return Half(x);
  if (storage == ElementType::kBF16)
    return Add(LaneOp::kTruncate, ElementType::kU16, Add(LaneOp::kShr, u, Bitcast(x, u), Constant(u, 16)));
  if (IsIntegral(storage) && StorageBytes(storage) < 4 && StorageBytes(TypeOf(x)) == 4)
    return Add(LaneOp::kTruncate, UnsignedOfWidth(StorageBytes(storage)), x);
  return std::nullopt;
}

}  // namespace krafla::cpu::native
