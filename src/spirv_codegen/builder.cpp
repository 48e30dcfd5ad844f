// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/builder.h"

#include <algorithm>
#include <bit>

#include "krafla/status.h"
#include "spirv/unified1/GLSL.std.450.h"
#include "spirv_codegen/builder_wide.h"
#include "spirv_codegen/float_ops.h"
#include "spirv_codegen/float_to_int.h"

namespace krafla::spirv {
namespace {

uint64_t Mask(Kind kind) {
  const int bits = KindBits(kind);
  return bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
}
int64_t SignExtend(uint64_t v, Kind kind) {
  const int shift = 64 - KindBits(kind);
  return static_cast<int64_t>(v << shift) >> shift;
}

}  // namespace

Value Builder::F32(float v) { return m.Constant(Kind::kF32, std::bit_cast<uint32_t>(v)); }
Value Builder::Float(Kind kind, double v) {
  return kind == Kind::kF64 ? Const(kind, std::bit_cast<uint64_t>(v)) : F32(static_cast<float>(v));
}

Value Builder::Iota(int width) {
  if (width == 1) return U32(0);
  std::vector<uint64_t> bits;
  for (int i = 0; i < width; ++i) bits.push_back(static_cast<uint64_t>(i));
  return m.ConstantVector(Kind::kU32, bits);
}

Value Builder::Splat(Value v, int width) {
  if (v.width == width) return v;
  KRAFLA_CHECK(v.width == 1);
  uint64_t bits;
  if (m.IsConstant(v, &bits)) {
    return m.ConstantVector(v.kind, std::vector<uint64_t>(static_cast<std::size_t>(width), bits));
  }
  if (WordPairs(m, v.kind)) {
    const WordPair pair = SplitPair(*this, v);
    return JoinPair(*this, Splat(pair.low, width), Splat(pair.high, width));
  }
  const std::vector<uint32_t> parts(static_cast<std::size_t>(width), v.id);
  return Value{m.Pure(spv::Op::OpCompositeConstruct, m.Type(v.kind, width), parts), v.kind,
               static_cast<uint8_t>(width)};
}

Value Builder::Extract(Value v, int lane) {
  if (v.width == 1) return v;
  uint64_t bits;
  if (m.IsConstant(v, &bits)) return m.Constant(v.kind, bits);
  if (WordPairs(m, v.kind)) {
    const WordPair pair = SplitPair(*this, v);
    return JoinPair(*this, Extract(pair.low, lane), Extract(pair.high, lane));
  }
  const uint32_t words[] = {v.id, static_cast<uint32_t>(lane)};
  return Value{m.Pure(spv::Op::OpCompositeExtract, m.Type(v.kind), words), v.kind, 1};
}

Value Builder::Composite(std::span<const Value> lanes) {
  if (lanes.size() == 1) return lanes[0];
  if (WordPairs(m, lanes[0].kind)) {
    Values low, high;
    for (Value lane : lanes) {
      const WordPair pair = SplitPair(*this, lane);
      low.push_back(pair.low);
      high.push_back(pair.high);
    }
    return JoinPair(*this, Composite(low), Composite(high));
  }
  std::vector<uint32_t> words;
  for (Value lane : lanes) words.push_back(lane.id);
  const int width = static_cast<int>(lanes.size());
  return Value{m.Pure(spv::Op::OpCompositeConstruct, m.Type(lanes[0].kind, width), words), lanes[0].kind,
               static_cast<uint8_t>(width)};
}

Value Builder::Shuffle(Value a, Value b, std::span<const uint32_t> lanes) {
  if (WordPairs(m, a.kind)) {
    const WordPair x = SplitPair(*this, a), y = SplitPair(*this, b);
    return JoinPair(*this, Shuffle(x.low, y.low, lanes), Shuffle(x.high, y.high, lanes));
  }
  std::vector<uint32_t> words{a.id, b.id};
  words.insert(words.end(), lanes.begin(), lanes.end());
  const int width = static_cast<int>(lanes.size());
  return Value{m.Pure(spv::Op::OpVectorShuffle, m.Type(a.kind, width), words), a.kind, static_cast<uint8_t>(width)};
}

Value Builder::Unary(spv::Op op, Value a, Kind kind) {
  if (WordPairs(m, a.kind) || WordPairs(m, kind)) return UnaryOfPairs(*this, op, a, kind);
  const uint32_t words[] = {a.id};
  return Value{m.Pure(op, m.Type(kind, a.width), words), kind, a.width};
}

Value Builder::Binary(spv::Op op, Value a, Value b, Kind kind, bool no_contraction) {
  if (WordPairs(m, a.kind)) return BinaryOfPairs(*this, op, a, b, kind);
  const int width = std::max(a.width, b.width);
  a = Splat(a, width);
  b = Splat(b, width);
  const uint32_t words[] = {a.id, b.id};
  return Value{m.Pure(op, m.Type(kind, width), words, no_contraction), kind, static_cast<uint8_t>(width)};
}

bool Builder::Const2(Value a, Value b, uint64_t& x, uint64_t& y) { return m.IsConstant(a, &x) && m.IsConstant(b, &y); }

Value Builder::Add(Value a, Value b) {
  uint64_t x, y;
  const int width = std::max(a.width, b.width);
  if (Const2(a, b, x, y)) return ConstLike(a, width, (x + y) & Mask(a.kind));
  if (m.IsConstant(a, &x) && x == 0) return Splat(b, width);
  if (m.IsConstant(b, &y) && y == 0) return Splat(a, width);
  return Binary(spv::Op::OpIAdd, a, b, a.kind);
}
Value Builder::Sub(Value a, Value b) {
  uint64_t x, y;
  const int width = std::max(a.width, b.width);
  if (Const2(a, b, x, y)) return ConstLike(a, width, (x - y) & Mask(a.kind));
  if (m.IsConstant(b, &y) && y == 0) return Splat(a, width);
  return Binary(spv::Op::OpISub, a, b, a.kind);
}
Value Builder::Mul(Value a, Value b) {
  uint64_t x, y;
  const int width = std::max(a.width, b.width);
  if (Const2(a, b, x, y)) return ConstLike(a, width, (x * y) & Mask(a.kind));
  if (m.IsConstant(a, &x)) std::swap(a, b);
  if (m.IsConstant(b, &y)) {
    if (y == 0) return ConstLike(a, width, 0);
    if (y == 1) return Splat(a, width);
    if (std::has_single_bit(y)) return Splat(Shl(a, Const(a.kind, static_cast<uint64_t>(std::countr_zero(y)))), width);
  }
  return Binary(spv::Op::OpIMul, a, b, a.kind);
}
Value Builder::UDiv(Value a, Value b) {
  uint64_t x, y;
  const int width = std::max(a.width, b.width);
  if (Const2(a, b, x, y)) return ConstLike(a, width, x / y);
  if (m.IsConstant(b, &y)) {
    if (y == 1) return Splat(a, width);
    if (std::has_single_bit(y)) return Splat(Shr(a, Const(a.kind, static_cast<uint64_t>(std::countr_zero(y)))), width);
  }
  return Binary(spv::Op::OpUDiv, a, b, a.kind);
}
Value Builder::UMod(Value a, Value b) {
  uint64_t x, y;
  const int width = std::max(a.width, b.width);
  if (Const2(a, b, x, y)) return ConstLike(a, width, x % y);
  if (m.IsConstant(b, &y)) {
    if (y == 1) return ConstLike(a, width, 0);
    if (std::has_single_bit(y)) return Splat(And(a, Const(a.kind, y - 1)), width);
  }
  return Binary(spv::Op::OpUMod, a, b, a.kind);
}
Value Builder::SDiv(Value a, Value b) { return Binary(spv::Op::OpSDiv, a, b, a.kind); }
Value Builder::And(Value a, Value b) {
  uint64_t x, y;
  const int width = std::max(a.width, b.width);
  if (Const2(a, b, x, y)) return ConstLike(a, width, x & y);
  if (m.IsConstant(b, &y) && y == Mask(b.kind)) return Splat(a, width);
  return Binary(spv::Op::OpBitwiseAnd, a, b, a.kind);
}
Value Builder::Or(Value a, Value b) {
  uint64_t x, y;
  const int width = std::max(a.width, b.width);
  if (Const2(a, b, x, y)) return ConstLike(a, width, x | y);
  if (m.IsConstant(a, &x) && x == 0) return Splat(b, width);
  if (m.IsConstant(b, &y) && y == 0) return Splat(a, width);
  return Binary(spv::Op::OpBitwiseOr, a, b, a.kind);
}
Value Builder::Xor(Value a, Value b) {
  uint64_t x, y;
  if (Const2(a, b, x, y)) return ConstLike(a, std::max(a.width, b.width), x ^ y);
  return Binary(spv::Op::OpBitwiseXor, a, b, a.kind);
}
Value Builder::Not(Value a) {
  uint64_t x;
  if (m.IsConstant(a, &x)) return ConstLike(a, a.width, ~x & Mask(a.kind));
  return Unary(spv::Op::OpNot, a, a.kind);
}
Value Builder::Shl(Value a, Value s) {
  uint64_t x, y;
  const int width = std::max(a.width, s.width);
  if (Const2(a, s, x, y)) return ConstLike(a, width, (x << y) & Mask(a.kind));
  if (m.IsConstant(s, &y) && y == 0) return Splat(a, width);
  return Binary(spv::Op::OpShiftLeftLogical, a, s, a.kind);
}
Value Builder::Shr(Value a, Value s) {
  uint64_t x, y;
  const int width = std::max(a.width, s.width);
  if (Const2(a, s, x, y)) return ConstLike(a, width, x >> y);
  if (m.IsConstant(s, &y) && y == 0) return Splat(a, width);
  return Binary(spv::Op::OpShiftRightLogical, a, s, a.kind);
}
Value Builder::Sar(Value a, Value s) {
  uint64_t x, y;
  if (Const2(a, s, x, y)) {
    return ConstLike(a, std::max(a.width, s.width), static_cast<uint64_t>(SignExtend(x, a.kind) >> y) & Mask(a.kind));
  }
  return Binary(spv::Op::OpShiftRightArithmetic, a, s, a.kind);
}
Value Builder::Neg(Value a) { return Sub(Zero(a.kind), a); }

Value Builder::MulHi(spv::Op extended, Value a, Value b) {
  const int width = std::max(a.width, b.width);
  const Id part = m.Type(a.kind, width);
  const uint32_t members[] = {part, part};
  const uint32_t words[] = {Splat(a, width).id, Splat(b, width).id};
  const Id pair = m.Pure(extended, m.Struct(members, {}, false), words);
  const uint32_t take[] = {pair, 1};
  return Value{m.Pure(spv::Op::OpCompositeExtract, part, take), a.kind, static_cast<uint8_t>(width)};
}
Value Builder::UMulHi(Value a, Value b) { return MulHi(spv::Op::OpUMulExtended, a, b); }
Value Builder::SMulHi(Value a, Value b) { return MulHi(spv::Op::OpSMulExtended, a, b); }
Value Builder::BitCount(Value a) { return Unary(spv::Op::OpBitCount, a, a.kind); }
Value Builder::FindUMsb(Value a) { return Glsl(GLSLstd450FindUMsb, {a}, Kind::kU32, a.width); }

Value Builder::Compare(Cmp cmp, Value a, Value b) {
  uint64_t x, y;
  if (Const2(a, b, x, y)) {
    const int64_t sx = SignExtend(x, a.kind), sy = SignExtend(y, b.kind);
    bool r = false;
    switch (cmp) {
      case Cmp::kEq: r = x == y; break;
      case Cmp::kNe: r = x != y; break;
      case Cmp::kULt: r = x < y; break;
      case Cmp::kULe: r = x <= y; break;
      case Cmp::kUGt: r = x > y; break;
      case Cmp::kUGe: r = x >= y; break;
      case Cmp::kSLt: r = sx < sy; break;
      case Cmp::kSLe: r = sx <= sy; break;
      case Cmp::kSGt: r = sx > sy; break;
      case Cmp::kSGe: r = sx >= sy; break;
    }
    return Splat(m.Bool(r), std::max(a.width, b.width));
  }
  static constexpr spv::Op kOps[] = {
      spv::Op::OpIEqual,       spv::Op::OpINotEqual,         spv::Op::OpULessThan, spv::Op::OpULessThanEqual,
      spv::Op::OpUGreaterThan, spv::Op::OpUGreaterThanEqual, spv::Op::OpSLessThan, spv::Op::OpSLessThanEqual,
      spv::Op::OpSGreaterThan, spv::Op::OpSGreaterThanEqual};
  return Binary(kOps[static_cast<int>(cmp)], a, b, Kind::kBool);
}
Value Builder::Min(Value a, Value b) { return Select(Compare(Cmp::kULt, a, b), a, b); }
Value Builder::UMax(Value a, Value b) { return Select(Compare(Cmp::kUGt, a, b), a, b); }
Value Builder::SMin(Value a, Value b) { return Select(Compare(Cmp::kSLt, a, b), a, b); }
Value Builder::SMax(Value a, Value b) { return Select(Compare(Cmp::kSGt, a, b), a, b); }

Value Builder::LAnd(Value a, Value b) {
  uint64_t x;
  const int width = std::max(a.width, b.width);
  if (m.IsConstant(a, &x)) return x != 0 ? Splat(b, width) : Splat(m.Bool(false), width);
  if (m.IsConstant(b, &x)) return x != 0 ? Splat(a, width) : Splat(m.Bool(false), width);
  return Binary(spv::Op::OpLogicalAnd, a, b, Kind::kBool);
}
Value Builder::LOr(Value a, Value b) {
  uint64_t x;
  const int width = std::max(a.width, b.width);
  if (m.IsConstant(a, &x)) return x == 0 ? Splat(b, width) : Splat(m.Bool(true), width);
  if (m.IsConstant(b, &x)) return x == 0 ? Splat(a, width) : Splat(m.Bool(true), width);
  return Binary(spv::Op::OpLogicalOr, a, b, Kind::kBool);
}
Value Builder::LNot(Value a) {
  uint64_t x;
  if (m.IsConstant(a, &x)) return Splat(m.Bool(x == 0), a.width);
  return Unary(spv::Op::OpLogicalNot, a, Kind::kBool);
}
Value Builder::LEqual(Value a, Value b) { return Binary(spv::Op::OpLogicalEqual, a, b, Kind::kBool); }
Value Builder::LNotEqual(Value a, Value b) { return Binary(spv::Op::OpLogicalNotEqual, a, b, Kind::kBool); }
Value Builder::OfAllLanes(spv::Op op, Value a) {
  if (a.width == 1) return a;
  const uint32_t words[] = {a.id};
  return Value{m.Pure(op, m.Type(Kind::kBool), words), Kind::kBool, 1};
}
Value Builder::Any(Value a) { return OfAllLanes(spv::Op::OpAny, a); }
Value Builder::All(Value a) { return OfAllLanes(spv::Op::OpAll, a); }

Value Builder::Select(Value c, Value a, Value b) {
  const int width = std::max({c.width, a.width, b.width});
  uint64_t x;
  if (m.IsConstant(c, &x)) return Splat(x != 0 ? a : b, width);
  a = Splat(a, width);
  b = Splat(b, width);
  if (a == b) return a;
  if (WordPairs(m, a.kind)) {
    const WordPair on_true = SplitPair(*this, a), on_false = SplitPair(*this, b);
    return JoinPair(*this, Select(c, on_true.low, on_false.low), Select(c, on_true.high, on_false.high));
  }
  c = Splat(c, width);
  const uint32_t words[] = {c.id, a.id, b.id};
  return Value{m.Pure(spv::Op::OpSelect, m.Type(a.kind, width), words), a.kind, static_cast<uint8_t>(width)};
}

Value Builder::FAdd(Value a, Value b) { return Binary(spv::Op::OpFAdd, a, b, a.kind, strict); }
Value Builder::FSub(Value a, Value b) { return Binary(spv::Op::OpFSub, a, b, a.kind, strict); }
Value Builder::FMul(Value a, Value b) { return Binary(spv::Op::OpFMul, a, b, a.kind, strict); }
Value Builder::FDiv(Value a, Value b) {
  const Value quotient = Binary(spv::Op::OpFDiv, a, b, a.kind, strict);
  if (!m.workarounds().zero_quotients_from_bits) return quotient;
  const int width = std::max(a.width, b.width);
  const Kind words = a.kind == Kind::kF64 ? Kind::kU64 : a.kind == Kind::kF32 ? Kind::kU32 : Kind::kU16;
  const Value sign_bit = Const(words, uint64_t{1} << (KindBits(words) - 1));
  const uint64_t infinity = words == Kind::kU64 ? 0x7ff0000000000000u : words == Kind::kU32 ? 0x7f800000u : 0x7c00u;
  const Value nan = Splat(Const(words, infinity | (infinity >> 1)), width);
  const Value x = Bitcast(Splat(a, width), words), y = Bitcast(Splat(b, width), words);
  const Value sign = And(Xor(x, y), sign_bit);
  auto magnitude = [&](Value bits) { return And(bits, Not(sign_bit)); };
  // Neither zero nor NaN.
  auto number = [&](Value bits) {
    return Compare(Cmp::kULt, Sub(magnitude(bits), Const(words, 1)), Const(words, infinity));
  };
  Value out = Bitcast(quotient, words);
  uint64_t bits = 0;
  if (!m.IsConstant(a, &bits) || (bits << (65 - KindBits(words))) == 0) {
    const Value zero = Compare(Cmp::kEq, magnitude(x), Const(words, 0));
    out = Select(zero, Select(number(y), sign, nan), out);
  }
  bits = 0;
  if (!m.IsConstant(b, &bits) || (bits << (65 - KindBits(words))) == 0) {
    const Value zero = Compare(Cmp::kEq, magnitude(y), Const(words, 0));
    out = Select(zero, Select(number(x), Or(sign, Const(words, infinity)), nan), out);
  }
  return Bitcast(out, a.kind);
}
Value Builder::FNeg(Value a) { return Unary(spv::Op::OpFNegate, a, a.kind); }

Value Builder::FCompare(FCmp cmp, Value a, Value b) {
  static constexpr spv::Op kOps[] = {spv::Op::OpFOrdEqual,       spv::Op::OpFUnordNotEqual,
                                     spv::Op::OpFOrdLessThan,    spv::Op::OpFOrdLessThanEqual,
                                     spv::Op::OpFOrdGreaterThan, spv::Op::OpFOrdGreaterThanEqual};
  return Binary(kOps[static_cast<int>(cmp)], NotAWidenedHalf(*this, a, b), NotAWidenedHalf(*this, b, a), Kind::kBool);
}
Value Builder::IsNan(Value a) {
  if (a.kind == Kind::kF32) {
    const Value magnitude = And(Bitcast(a, Kind::kU32), U32(0x7fffffffu));
    return Compare(Cmp::kUGt, magnitude, U32(0x7f800000u));
  }
  return Unary(spv::Op::OpIsNan, a, Kind::kBool);
}

Value Builder::Glsl(uint32_t instruction, std::initializer_list<Value> operands, Kind kind, int width) {
  std::vector<uint32_t> words{m.GlslStd450(), instruction};
  for (Value v : operands) words.push_back(Splat(v, width).id);
  return Value{m.Pure(spv::Op::OpExtInst, m.Type(kind, width), words), kind, static_cast<uint8_t>(width)};
}

Value Builder::Bitcast(Value a, Kind kind) {
  if (a.kind == kind) return a;
  uint64_t bits;
  if (m.IsConstant(a, &bits)) return Splat(m.Constant(kind, bits), a.width);
  return Unary(spv::Op::OpBitcast, a, kind);
}
Value Builder::BitcastTo(Value a, Kind kind, int width) {
  if (a.kind == kind && a.width == width) return a;
  if (WordPairs(m, a.kind) || WordPairs(m, kind)) return BitcastPairs(*this, a, kind, width);
  const uint32_t words[] = {a.id};
  return Value{m.Pure(spv::Op::OpBitcast, m.Type(kind, width), words), kind, static_cast<uint8_t>(width)};
}
Value Builder::UConvert(Value a, Kind kind) {
  if (a.kind == kind) return a;
  uint64_t bits;
  // Constants of 8 and 16 bits need more than storage of them.
  if (KindBits(kind) >= 32 && m.IsConstant(a, &bits)) return Splat(m.Constant(kind, bits), a.width);
  return Unary(spv::Op::OpUConvert, a, kind);
}
Value Builder::SConvert(Value a, Kind kind) {
  if (a.kind == kind) return a;
  uint64_t bits;
  if (m.IsConstant(a, &bits)) return Splat(m.Constant(kind, static_cast<uint64_t>(SignExtend(bits, a.kind))), a.width);
  return Unary(spv::Op::OpSConvert, a, kind);
}
Value Builder::UToF(Value a, Kind kind) { return Unary(spv::Op::OpConvertUToF, a, kind); }
Value Builder::SToF(Value a, Kind kind) { return Unary(spv::Op::OpConvertSToF, a, kind); }
Value Builder::FToU(Value a, Kind kind) { return FloatToWord(spv::Op::OpConvertFToU, a, kind); }
Value Builder::FToS(Value a, Kind kind) { return FloatToWord(spv::Op::OpConvertFToS, a, kind); }
Value Builder::FloatToWord(spv::Op op, Value a, Kind kind) {
  if (m.conversion().integers_by_addition && a.kind == Kind::kF32 && kind == Kind::kU32)
    return TruncateByAddition(*this, a);
  return Unary(op, a, kind);
}
Value Builder::FConvert(Value a, Kind kind) {
  if (a.kind == kind) return a;
  // NoContraction also keeps a driver from leaving out a conversion there and back.
  const uint32_t words[] = {a.id};
  return Value{m.Pure(spv::Op::OpFConvert, m.Type(kind, a.width), words, strict), kind, a.width};
}

}  // namespace krafla::spirv
