// SPDX-License-Identifier: Apache-2.0
// The program's operations as lane operations; the block interpreter's loops (kernels/block_*.cpp) say what each gives.
#include "cpu_fallback/native/lane_builder.h"
#include "cpu_fallback/native/native_code.h"

#include <algorithm>
#include <cmath>

#include "numerics/nan.h"
#include "numerics/reciprocal.h"

namespace krafla::cpu::native {

namespace {

using Value = LaneBuilder::Value;
using Nans = LaneBuilder::Nans;

uint64_t NanBits(ElementType type) { return type == ElementType::kF64 ? kNanF64 : kNanF32; }
uint64_t InfBits(ElementType type) { return type == ElementType::kF64 ? uint64_t{0x7ff} << 52 : uint64_t{0x7f800000}; }
uint64_t SignBits(ElementType type) { return type == ElementType::kF64 ? uint64_t{1} << 63 : uint64_t{1} << 31; }

}  // namespace

int LaneBuilder::AddStream(LaneStream stream) {
  graph_.streams.push_back(stream);
  return static_cast<int>(graph_.streams.size()) - 1;
}

uint64_t LaneBuilder::SequenceNumber(const LaneSequence& sequence) {
  const auto known = std::ranges::find(graph_.sequences, sequence);
  const auto number = static_cast<uint64_t>(known - graph_.sequences.begin());
  if (known == graph_.sequences.end()) graph_.sequences.push_back(sequence);
  return number;
}

int LaneBuilder::Constant(ElementType type, uint64_t bits) {
  const int width = StorageBytes(type);
  if (width < 8) bits &= (uint64_t{1} << (8 * width)) - 1;
  return Add({LaneOp::kConstant, type, -1, -1, -1, bits});
}
int LaneBuilder::ConstantOf(ElementType type, double value) {
  if (type == ElementType::kF32) return Constant(type, std::bit_cast<uint32_t>(static_cast<float>(value)));
  if (type == ElementType::kF64) return Constant(type, std::bit_cast<uint64_t>(value));
  return Constant(type, static_cast<uint64_t>(static_cast<int64_t>(value)));
}

int LaneBuilder::Bitcast(int a, ElementType type) {
  // By value: a node more may move them all.
  const LaneNode n = node(a);
  if (n.type == type) return a;
  if (n.op == LaneOp::kConstant) return Constant(type, n.bits);
  return Add(LaneOp::kBitcast, type, n.op == LaneOp::kBitcast ? n.a : a);
}

void LaneBuilder::BeginRegion(int condition) {
  is_region_open_ = true;
  const int begin = static_cast<int>(graph_.nodes.size());
  graph_.regions.push_back({condition, begin, begin});
}
void LaneBuilder::EndRegion(std::span<const int> taken, std::span<const int> otherwise, std::span<int> phis) {
  for (const LaneNode& n : in_region_) known_.erase(n);
  in_region_.clear();
  is_region_open_ = false;
  graph_.regions.back().end = static_cast<int>(graph_.nodes.size());
  const uint64_t number = graph_.regions.size() - 1;
  for (std::size_t i = 0; i < taken.size(); ++i)
    phis[i] = Add({LaneOp::kPhi, TypeOf(otherwise[i]), taken[i], otherwise[i], -1, number});
}

int LaneBuilder::Seen(Value v) {
  switch (v.nans) {
    case Nans::kRaw: break;
    case Nans::kPending: return Settle(v.node);
    case Nans::kSigned: return QuietNanOf(v.node, v.node);
  }
  return v.node;
}

Value LaneBuilder::As(Value v, ElementType type) {
  const ElementType from = TypeOf(v.node);
  if (from == type) return v;
  if (from == ElementType::kPred) {
    const ElementType byte = ElementType::kU8;
    return {Bitcast(Select(v.node, Constant(byte, 1), Constant(byte, 0)), type)};
  }
  if (type == ElementType::kPred) return {Compare(LaneOp::kNe, v.node, Constant(from, 0))};
  return {Bitcast(Seen(v), type)};
}

bool LaneBuilder::IsNumber(int id) const {
  const LaneNode& n = node(id);
  return n.op == LaneOp::kIntToFloat || (n.op == LaneOp::kConstant && HoldsNoNan(id) && n.bits != NanBits(n.type));
}
bool LaneBuilder::HoldsNoNan(int id) const {
  const LaneNode& n = node(id);
  // None but the NaN.
  if (n.op == LaneOp::kSettle || ((n.op == LaneOp::kMax || n.op == LaneOp::kMin) && IsFloat(n.type))) return true;
  if (n.op == LaneOp::kIntToFloat) return true;
  if (n.op != LaneOp::kConstant) return false;
  if (n.type == ElementType::kF32)
    return !std::isnan(std::bit_cast<float>(static_cast<uint32_t>(n.bits))) || n.bits == kNanF32;
  if (n.type == ElementType::kF64) return !std::isnan(std::bit_cast<double>(n.bits)) || n.bits == kNanF64;
  return false;
}

// `number`, or where x is a NaN the quiet one of its sign.
int LaneBuilder::QuietNanOf(int x, int number) {
  if (IsNumber(x)) return number;
  const ElementType type = TypeOf(number), from = TypeOf(x);
  const int is_nan = Compare(LaneOp::kNe, x, x);
  const int is_negative = Compare(LaneOp::kLt, Bitcast(x, SignedOfWidth(StorageBytes(from))),
                                  Constant(SignedOfWidth(StorageBytes(from)), 0));
  const int quiet = Select(is_negative, Constant(type, NanBits(type) | SignBits(type)), Constant(type, NanBits(type)));
  return Select(is_nan, quiet, number);
}

int LaneBuilder::TotalOrderKey(int x) {
  const ElementType s = SignedOfWidth(StorageBytes(TypeOf(x))), u = UnsignedOfWidth(StorageBytes(TypeOf(x)));
  const int bits = Bitcast(x, s);
  const int all = Add(LaneOp::kSar, s, bits, Constant(s, static_cast<uint64_t>(BitWidth(s) - 1)));
  const int flip = Bitcast(Add(LaneOp::kShr, u, Bitcast(all, u), Constant(u, 1)), s);
  return Add(LaneOp::kXor, s, bits, flip);
}

std::optional<Value> LaneBuilder::Apply(const BlockKey& key, uint64_t bits, std::span<const Value> operands) {
  using plan::NodeOp;
  switch (key.op) {
    case NodeOp::kConstant:
    case NodeOp::kIndex:
    case NodeOp::kParam:
    case NodeOp::kLoad:
    case NodeOp::kBitcast: return std::nullopt;
    case NodeOp::kEncode: {
      const MiniFloat* format = ByteFormat(key.storage);
      if (format == nullptr) return std::nullopt;
      return Value{EncodeAs(*this, Seen(As(operands[0], ElementType::kF32)), *format)};
    }
    case NodeOp::kDecode: {
      const int code = As(operands[0], ElementType::kU32).node;
      if (StorageBytes(key.storage) == 2) return Widen(Add(LaneOp::kTruncate, ElementType::kU16, code), key.storage);
      if (ByteFormat(key.storage) == nullptr) return std::nullopt;
      return Decoded(code, key.storage);
    }
    case NodeOp::kReducePrecision: {
      if (key.type != ElementType::kF32) return std::nullopt;
      const int x = Seen(As(operands[0], key.type));
      return Value{ReducedPrecision(*this, x, static_cast<int>(bits >> 32), static_cast<int>(bits & 0xffffffffu))};
    }
    case NodeOp::kCompare: return Compared(key, operands);
    case NodeOp::kConvert: return Converted(key.type, As(operands[0], key.operand));
    case NodeOp::kRound: return Rounded(As(operands[0], key.operand), key.storage);
    case NodeOp::kWrap: {
      const Value x = As(operands[0], key.type);
      const int width = BitWidth(key.storage);
      if (!IsIntegral(key.storage) || width >= 32) return std::nullopt;
      if (IsUnsigned(key.storage))
        return Value{Add(LaneOp::kAnd, key.type, x.node, Constant(key.type, (uint64_t{1} << width) - 1))};
      const int by = Constant(key.type, static_cast<uint64_t>(32 - width));
      return Value{Add(LaneOp::kSar, key.type, Add(LaneOp::kShl, key.type, x.node, by), by)};
    }
    case NodeOp::kHlo: break;
  }
  if (key.opcode == Opcode::kSelect) {
    const Value p = As(operands[0], ElementType::kPred), t = As(operands[1], key.type), f = As(operands[2], key.type);
    const auto is_free = [&](const Value& v) { return v.nans == Nans::kPending || HoldsNoNan(v.node); };
    if ((t.nans == Nans::kPending || f.nans == Nans::kPending) && is_free(t) && is_free(f))
      return Value{Select(p.node, t.node, f.node), Nans::kPending};
    if (t.nans == Nans::kSigned && f.nans == Nans::kSigned) return Value{Select(p.node, t.node, f.node), Nans::kSigned};
    return Value{Select(p.node, Seen(t), Seen(f))};
  }
  if (key.opcode == Opcode::kIsFinite) {
    if (!IsFloat(key.operand)) return std::nullopt;
    const int x = As(operands[0], key.operand).node;
    // The difference of a number and itself is a number for finite ones only.
    const int zero = Add(LaneOp::kSub, key.operand, x, x);
    return Value{Compare(LaneOp::kEq, zero, zero)};
  }
  if (key.type == ElementType::kPred) return Predicate(key, operands);
  std::array<Value, 3> x;
  for (std::size_t i = 0; i < operands.size() && i < 3; ++i) x[i] = As(operands[i], key.type);
  const std::span<const Value> given(x.data(), std::min<std::size_t>(operands.size(), 3));
  return IsFloat(key.type) ? Float(key, given) : Integer(key, given);
}

std::optional<Value> LaneBuilder::Float(const BlockKey& key, std::span<const Value> x) {
  const ElementType t = key.type;
  if (t != ElementType::kF32 && t != ElementType::kF64) return std::nullopt;
  const auto number = [&](LaneOp op) {
    return Value{Add(op, t, x[0].node, x.size() > 1 ? x[1].node : -1), Nans::kPending};
  };
  if (key.opcode == Opcode::kAdd) return number(LaneOp::kAdd);
  if (key.opcode == Opcode::kSubtract) return number(LaneOp::kSub);
  if (key.opcode == Opcode::kMultiply) return number(LaneOp::kMul);
  if (key.opcode == Opcode::kDivide) return Value{FloatQuotient(t, x[0].node, x[1].node), Nans::kPending};
  if (key.opcode == Opcode::kFloor) return number(LaneOp::kFloor);
  if (key.opcode == Opcode::kCeil) return number(LaneOp::kCeil);
  if (key.opcode == Opcode::kRoundNearestEven) return number(LaneOp::kRoundEven);
  if (key.opcode == Opcode::kMaximum || key.opcode == Opcode::kMinimum) return Extremum(key.opcode, t, x[0], x[1]);
  if (key.opcode == Opcode::kClamp) {
    const std::optional<Value> low = Extremum(Opcode::kMaximum, t, x[0], x[1]);
    return low ? Extremum(Opcode::kMinimum, t, *low, x[2]) : low;
  }
  if (key.opcode == Opcode::kAbs || key.opcode == Opcode::kNegate) {
    const LaneOp op = key.opcode == Opcode::kAbs ? LaneOp::kAbs : LaneOp::kNeg;
    if (x[0].nans == Nans::kSigned) return Value{Add(op, t, x[0].node), Nans::kSigned};
    return Value{Add(op, t, Seen(x[0]))};
  }
  const ElementType u = UnsignedOfWidth(StorageBytes(t));
  const auto with_sign = [&](int magnitude) {
    const int sign = Add(LaneOp::kAnd, u, Bitcast(x[0].node, u), Constant(u, SignBits(t)));
    return Bitcast(Add(LaneOp::kOr, u, Bitcast(magnitude, u), sign), t);
  };
  if (key.opcode == Opcode::kSign) {
    const int is_number = Compare(LaneOp::kLt, ConstantOf(t, 0), Add(LaneOp::kAbs, t, x[0].node));
    // A subnormal number that is none becomes a zero.
    const int other = Add(LaneOp::kMul, t, x[0].node, ConstantOf(t, 1));
    return Value{Select(is_number, with_sign(ConstantOf(t, 1)), other), Nans::kPending};
  }
  if (key.opcode == Opcode::kRoundNearestAfz) {
    const int whole = Add(LaneOp::kTrunc, t, x[0].node);
    const int rest = Add(LaneOp::kAbs, t, Add(LaneOp::kSub, t, x[0].node, whole));
    const int up = Compare(LaneOp::kLe, ConstantOf(t, 0.5), rest);
    return Value{with_sign(Select(up, Add(LaneOp::kAdd, t, whole, with_sign(ConstantOf(t, 1))), whole)),
                 Nans::kPending};
  }
  // A formula takes any NaN of a sign.
  const auto given = [&](const Value& v) { return v.nans == Nans::kSigned ? v.node : Seen(v); };
  std::array<int, 2> seen = {given(x[0]), x.size() > 1 ? given(x[1]) : -1};
  const std::optional<int> formula =
      ApplyFormula(*this, key.opcode, t, std::span<const int>(seen.data(), std::min<std::size_t>(x.size(), 2)));
  if (!formula) return std::nullopt;
  return Value{*formula, Nans::kPending};
}

// With a number on one side it is one comparison, which gives the other operand where that is a NaN. Of two zeros it
// gives that operand too: right for the smaller of it and +0 and for the larger of it and -0; adding +0 makes a +0 of
// the larger of -0 and +0.
std::optional<Value> LaneBuilder::Extremum(Opcode opcode, ElementType type, Value x, Value y) {
  const bool is_max = opcode == Opcode::kMaximum;
  if (node(x.node).op != LaneOp::kConstant) std::swap(x, y);
  const LaneNode c = node(x.node);
  const bool is_number = c.op == LaneOp::kConstant && (c.bits & ~SignBits(type)) <= InfBits(type);
  const bool is_minus_zero = is_number && c.bits == SignBits(type), is_plus_zero = is_number && c.bits == 0;
  if (!is_number || (!is_max && is_minus_zero))
    return Value{Add(is_max ? LaneOp::kMax : LaneOp::kMin, type, x.node, y.node)};
  const int chosen = Add(is_max ? LaneOp::kGreater : LaneOp::kLesser, type, x.node, y.node);
  if (is_max && is_plus_zero) return Value{Add(LaneOp::kAdd, type, chosen, x.node), Nans::kPending};
  return Value{chosen, Nans::kPending};
}

int LaneBuilder::QuotientBelow2To31(int x, uint64_t divisor) {
  if (divisor == 1) return x;
  const ElementType u = ElementType::kU32;
  const Reciprocal reciprocal(divisor);
  const int high = Add(LaneOp::kMulHigh, u, x, Constant(u, reciprocal.factor));
  if (reciprocal.shift == 32) return high;
  return Add(LaneOp::kShr, u, high, Constant(u, static_cast<uint64_t>(reciprocal.shift - 32)));
}

// A signed x / divisor, whose size is from 2 to 2^31: the upper half of x times a signed factor near 2^(32 + shift) /
// divisor, shifted, and one more where that is negative (Warren, "Hacker's Delight", 2002, chapter 10).
int LaneBuilder::SignedQuotient(int x, int32_t divisor) {
  const ElementType s = ElementType::kS32, u = ElementType::kU32;
  const uint64_t size =
      divisor < 0 ? uint64_t{0} - static_cast<uint64_t>(int64_t{divisor}) : static_cast<uint64_t>(divisor);
  const uint64_t last = (uint64_t{1} << 31) + (divisor < 0 ? 1 : 0);
  const uint64_t largest = last - 1 - last % size;  // of one remainder below a multiple
  int power = 32;
  const auto missing = [&] { return size - (uint64_t{1} << power) % size; };
  while ((uint64_t{1} << power) <= largest * missing()) ++power;
  const auto positive = static_cast<int32_t>(static_cast<uint32_t>(((uint64_t{1} << power) + missing()) / size));
  const int32_t factor = divisor < 0 ? static_cast<int32_t>(0u - static_cast<uint32_t>(positive)) : positive;
  int q = Add(LaneOp::kMulHigh, s, x, Constant(s, static_cast<uint32_t>(factor)));
  if (divisor > 0 && factor < 0) q = Add(LaneOp::kAdd, s, q, x);
  if (divisor < 0 && factor > 0) q = Add(LaneOp::kSub, s, q, x);
  if (power > 32) q = Add(LaneOp::kSar, s, q, Constant(s, static_cast<uint64_t>(power - 32)));
  return Add(LaneOp::kAdd, s, q, Bitcast(Add(LaneOp::kShr, u, Bitcast(q, u), Constant(u, 31)), s));
}

// x / divisor, which is not 0, by a multiplication. For all 32 bits of an unsigned number the factor needs 33: f + 2^32
// with f = ceil(2^(32 + l) / d) - 2^32 and l = ceil(log2(d)); then n * (f + 2^32) >> (32 + l) = (h + ((n - h) >> 1)) >>
// (l - 1), where h = n * f >> 32 (Granlund and Montgomery, "Division by invariant integers using multiplication",
// 1994).
int LaneBuilder::Quotient(ElementType type, int x, uint64_t divisor) {
  const ElementType u = ElementType::kU32;
  const auto shifted = [&](int a, int by) {
    return by == 0 ? a : Add(LaneOp::kShr, u, a, Constant(u, static_cast<uint64_t>(by)));
  };
  if (type == u) {
    if (divisor == 1) return x;
    const int l = std::bit_width(divisor - 1);
    if (std::has_single_bit(divisor)) return shifted(x, l);
    const uint64_t factor = ((((uint64_t{1} << l) - divisor) << 32) / divisor) + 1;
    const int high = Add(LaneOp::kMulHigh, u, x, Constant(u, factor));
    return shifted(Add(LaneOp::kAdd, u, high, shifted(Add(LaneOp::kSub, u, x, high), 1)), l - 1);
  }
  const auto number = static_cast<int32_t>(static_cast<uint32_t>(divisor));
  if (number == 1) return x;
  if (number == -1) return Add(LaneOp::kSub, type, Constant(type, 0), x);
  return SignedQuotient(x, number);
}

// Of 8 and 16 bits. A count from the width on, unsigned, shifts all bits out, or the sign in.
Value LaneBuilder::NarrowShift(Opcode opcode, ElementType t, int x, int by) {
  const int width = StorageBytes(t);
  const ElementType u = UnsignedOfWidth(width);
  const bool is_arithmetic = opcode == Opcode::kShiftRightArithmetic;
  const ElementType narrow = is_arithmetic ? SignedOfWidth(width) : u;
  const LaneOp op = opcode == Opcode::kShiftLeft ? LaneOp::kShl : is_arithmetic ? LaneOp::kSar : LaneOp::kShr;
  const LaneNode count = node(by);
  if (HasAvx512Code()) return {Bitcast(Add(op, narrow, Bitcast(x, narrow), Bitcast(by, narrow)), t)};
  // AVX2 has none: in wider lanes.
  const ElementType wide = is_arithmetic ? ElementType::kS32 : ElementType::kU32;
  const int extended_by = count.op == LaneOp::kConstant
                              ? Constant(wide, count.bits & ((uint64_t{1} << (8 * width)) - 1))
                              : Bitcast(Add(LaneOp::kExtend, ElementType::kU32, Bitcast(by, u)), wide);
  const int shifted = Add(op, wide, Add(LaneOp::kExtend, wide, Bitcast(x, narrow)), extended_by);
  return {Bitcast(Add(LaneOp::kTruncate, u, shifted), t)};
}

std::optional<Value> LaneBuilder::Integer(const BlockKey& key, std::span<const Value> x) {
  const ElementType t = key.type;
  const int width = StorageBytes(t);
  if (!IsIntegral(t) || BitWidth(t) != 8 * width) return std::nullopt;
  const ElementType u = UnsignedOfWidth(width);
  const bool is_signed = IsSigned(t);
  const auto plain = [&](LaneOp op) { return Value{Add(op, t, x[0].node, x.size() > 1 ? x[1].node : -1)}; };
  if (key.opcode == Opcode::kAdd) return plain(LaneOp::kAdd);
  if (key.opcode == Opcode::kSubtract) return plain(LaneOp::kSub);
  if (key.opcode == Opcode::kMultiply) return plain(LaneOp::kMul);
  if (key.opcode == Opcode::kAnd) return plain(LaneOp::kAnd);
  if (key.opcode == Opcode::kOr) return plain(LaneOp::kOr);
  if (key.opcode == Opcode::kXor) return plain(LaneOp::kXor);
  if (key.opcode == Opcode::kMaximum) return plain(LaneOp::kMax);
  if (key.opcode == Opcode::kMinimum) return plain(LaneOp::kMin);
  if (key.opcode == Opcode::kNot) return plain(LaneOp::kNot);
  if (key.opcode == Opcode::kNegate) return Value{Add(LaneOp::kSub, t, Constant(t, 0), x[0].node)};
  if (key.opcode == Opcode::kAbs) return is_signed ? plain(LaneOp::kAbs) : x[0];
  if (key.opcode == Opcode::kSign) {
    const int low = is_signed ? Add(LaneOp::kMax, t, x[0].node, Constant(t, ~uint64_t{0})) : x[0].node;
    return Value{Add(LaneOp::kMin, t, low, Constant(t, 1))};
  }
  if (key.opcode == Opcode::kClamp)
    return Value{Add(LaneOp::kMin, t, Add(LaneOp::kMax, t, x[0].node, x[1].node), x[2].node)};
  const bool divides = key.opcode == Opcode::kDivide || key.opcode == Opcode::kRemainder;
  const bool shifts = key.opcode == Opcode::kShiftLeft || key.opcode == Opcode::kShiftRightArithmetic ||
                      key.opcode == Opcode::kShiftRightLogical;
  if (width < 4 && shifts) return NarrowShift(key.opcode, t, x[0].node, x[1].node);
  if (width < 4) {
    if (!divides) return std::nullopt;
    if (const LaneNode d = node(x[1].node); width == 1 && !is_signed && d.op == LaneOp::kConstant && d.bits != 0) {
      // Of a byte by a byte, d: x * ceil(2^16 / d) >> 16.
      const ElementType wide = ElementType::kU16;
      const int by = Constant(wide, (uint64_t{0xffff} + d.bits) / d.bits);
      const int q = d.bits == 1 ? x[0].node
                                : Add(LaneOp::kTruncate, t,
                                      Add(LaneOp::kMulHigh, wide, Add(LaneOp::kExtend, wide, x[0].node), by));
      if (key.opcode == Opcode::kDivide) return Value{q};
      return Value{Add(LaneOp::kSub, t, x[0].node, Add(LaneOp::kMul, t, q, x[1].node))};
    }
    // In wider lanes; the low bits of what 32 bits give are what the narrow operation gives.
    const ElementType wide = is_signed ? ElementType::kS32 : ElementType::kU32;
    const auto extended = [&](int a) {
      return node(a).op == LaneOp::kConstant
                 ? Constant(wide, is_signed ? static_cast<uint64_t>(SignExtended(node(a).bits, width)) : node(a).bits)
                 : Add(LaneOp::kExtend, wide, a);
    };
    const int q = Divided(key.opcode, wide, extended(x[0].node), extended(x[1].node), width);
    return Value{Add(LaneOp::kTruncate, t, q)};
  }
  if (key.opcode == Opcode::kShiftLeft) return plain(LaneOp::kShl);
  if (key.opcode == Opcode::kShiftRightArithmetic || key.opcode == Opcode::kShiftRightLogical) {
    const ElementType as = key.opcode == Opcode::kShiftRightLogical ? u : SignedOfWidth(width);
    const LaneOp op = key.opcode == Opcode::kShiftRightLogical ? LaneOp::kShr : LaneOp::kSar;
    return Value{Bitcast(Add(op, as, Bitcast(x[0].node, as), Bitcast(x[1].node, as)), t)};
  }
  if (key.opcode == Opcode::kPopulationCount) return plain(LaneOp::kPopcount);
  if (key.opcode == Opcode::kClz) return plain(LaneOp::kClz);
  if (width == 8) return std::nullopt;
  if (key.opcode == Opcode::kMulhi) return plain(LaneOp::kMulHigh);
  if (divides) return Value{Divided(key.opcode, t, x[0].node, x[1].node, width)};
  return std::nullopt;
}

// Of s32 or u32, that hold numbers of `width` bytes: x / 0 is all ones, x % 0 is x; MIN / -1 is MIN, x % -1 is 0.
int LaneBuilder::Divided(Opcode opcode, ElementType t, int x, int y, int width) {
  const bool is_signed = t == ElementType::kS32;
  const auto rest_of = [&](int quotient) { return Add(LaneOp::kSub, t, x, Add(LaneOp::kMul, t, quotient, y)); };
  if (const LaneNode d = node(y); d.op == LaneOp::kConstant && d.bits != 0) {
    const int q = Quotient(t, x, d.bits);
    return opcode == Opcode::kDivide ? q : rest_of(q);
  }
  const int zero = Constant(t, 0), one = Constant(t, 1);
  const int by_zero = Compare(LaneOp::kEq, y, zero);
  const ElementType f = ElementType::kF32;
  if (width < 4) {
    // The quotient of numbers of 16 bits is further from the next integer than a float's division rounds, and MIN / -1
    // has room. By zero it may be anything, whose product with zero is none.
    const int q = Add(LaneOp::kTruncateToInt, t,
                      Add(LaneOp::kDiv, f, Add(LaneOp::kIntToFloat, f, x), Add(LaneOp::kIntToFloat, f, y)));
    return opcode == Opcode::kDivide ? Select(by_zero, Constant(t, ~uint64_t{0}), q) : rest_of(q);
  }
  int unsafe = by_zero, by_minus = -1;
  if (is_signed) {
    by_minus = Compare(LaneOp::kEq, y, Constant(t, ~uint64_t{0}));
    unsafe = Add(LaneOp::kOr, ElementType::kPred, by_zero, by_minus);
  }
  int q = Add(LaneOp::kDiv, t, x, Select(unsafe, one, y));
  if (is_signed) q = Select(by_minus, Add(LaneOp::kSub, t, zero, x), q);
  if (opcode == Opcode::kDivide) return Select(by_zero, Constant(t, ~uint64_t{0}), q);
  return Select(by_zero, x, rest_of(q));
}

std::optional<Value> LaneBuilder::Predicate(const BlockKey& key, std::span<const Value> operands) {
  const ElementType t = ElementType::kPred;
  const auto x = [&](std::size_t i) { return As(operands[i], t).node; };
  if (key.opcode == Opcode::kAnd || key.opcode == Opcode::kMultiply || key.opcode == Opcode::kMinimum)
    return Value{Add(LaneOp::kAnd, t, x(0), x(1))};
  if (key.opcode == Opcode::kOr || key.opcode == Opcode::kAdd || key.opcode == Opcode::kMaximum)
    return Value{Add(LaneOp::kOr, t, x(0), x(1))};
  if (key.opcode == Opcode::kXor) return Value{Add(LaneOp::kXor, t, x(0), x(1))};
  if (key.opcode == Opcode::kNot) return Value{Add(LaneOp::kNot, t, x(0))};
  if (key.opcode == Opcode::kClamp) return Value{Add(LaneOp::kAnd, t, Add(LaneOp::kOr, t, x(0), x(1)), x(2))};
  return std::nullopt;
}

std::optional<Value> LaneBuilder::Compared(const BlockKey& key, std::span<const Value> operands) {
  if (key.operand == ElementType::kPred)
    return Value{ComparedPreds(key.direction, As(operands[0], key.operand).node, As(operands[1], key.operand).node)};
  const ElementType t = key.operand;
  Value a = As(operands[0], t), b = As(operands[1], t);
  int x = a.node, y = b.node;
  if (IsIntegral(t) && node(x).op == LaneOp::kConstant && node(y).op == LaneOp::kConstant) {
    // The same order among all integers of the type.
    const auto order_of = [&](int id) {
      const int width = StorageBytes(t);
      return IsSigned(t) ? static_cast<uint64_t>(SignExtended(node(id).bits, width)) ^ uint64_t { 1 } << 63
                         : node(id).bits;
    };
    const uint64_t p = order_of(x), q = order_of(y);
    const bool is_true = key.direction == ComparisonDirection::kEq   ? p == q
                         : key.direction == ComparisonDirection::kNe ? p != q
                         : key.direction == ComparisonDirection::kLe ? p <= q
                         : key.direction == ComparisonDirection::kLt ? p < q
                         : key.direction == ComparisonDirection::kGe ? p >= q
                                                                     : p > q;
    return Value{Constant(ElementType::kPred, is_true ? 1 : 0)};
  }
  if (IsFloat(t) && key.total_order) x = TotalOrderKey(Seen(a)), y = TotalOrderKey(Seen(b));
  switch (key.direction) {
    case ComparisonDirection::kEq: return Value{Compare(LaneOp::kEq, x, y)};
    case ComparisonDirection::kNe: return Value{Compare(LaneOp::kNe, x, y)};
    case ComparisonDirection::kLe: return Value{Compare(LaneOp::kLe, x, y)};
    case ComparisonDirection::kLt: return Value{Compare(LaneOp::kLt, x, y)};
    case ComparisonDirection::kGe: return Value{Compare(LaneOp::kLe, y, x)};
    case ComparisonDirection::kGt: return Value{Compare(LaneOp::kLt, y, x)};
  }
  return std::nullopt;
}

// False is less than true.
int LaneBuilder::ComparedPreds(ComparisonDirection direction, int a, int b) {
  const ElementType t = ElementType::kPred;
  const auto is_not = [&](int x) {
    return node(x).op == LaneOp::kConstant ? Constant(t, node(x).bits ^ 1) : Add(LaneOp::kNot, t, x);
  };
  const auto is_less = [&](int x, int y) { return Add(LaneOp::kAnd, t, is_not(x), y); };
  switch (direction) {
    case ComparisonDirection::kEq: return is_not(Add(LaneOp::kXor, t, a, b));
    case ComparisonDirection::kNe: return Add(LaneOp::kXor, t, a, b);
    case ComparisonDirection::kLt: return is_less(a, b);
    case ComparisonDirection::kGt: return is_less(b, a);
    case ComparisonDirection::kLe: return is_not(is_less(b, a));
    case ComparisonDirection::kGe: return is_not(is_less(a, b));
  }
  return a;
}

}  // namespace krafla::cpu::native
