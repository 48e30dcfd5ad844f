// SPDX-License-Identifier: Apache-2.0
// The program's operations as lane operations; the block interpreter's loops (kernels/block_*.cpp) say what each gives.
#include "cpu_fallback/native/lane_builder.h"

#include <algorithm>
#include <cmath>

#include "ir/mini_float.h"
#include "numerics/nan.h"

namespace krafla::cpu::native {

namespace {

using Value = LaneBuilder::Value;
using Nans = LaneBuilder::Nans;

ElementType SignedOf(int width) {
  return width == 1   ? ElementType::kS8
         : width == 2 ? ElementType::kS16
         : width == 4 ? ElementType::kS32
                      : ElementType::kS64;
}
int64_t SignExtended(uint64_t bits, int width) {
  return static_cast<int64_t>(bits << (64 - 8 * width)) >> (64 - 8 * width);
}
// Of a byte or less; those of 16 bits have instructions, or shorter ways.
const MiniFloat* ByteFormat(ElementType storage) {
  return StorageBytes(storage) == 1 ? FindMiniFloat(storage) : nullptr;
}
uint64_t NanBits(ElementType type) { return type == ElementType::kF64 ? kNanF64 : kNanF32; }
uint64_t InfBits(ElementType type) { return type == ElementType::kF64 ? uint64_t{0x7ff} << 52 : uint64_t{0x7f800000}; }
uint64_t SignBits(ElementType type) { return type == ElementType::kF64 ? uint64_t{1} << 63 : uint64_t{1} << 31; }

}  // namespace

int LaneBuilder::AddStream(LaneStream stream) {
  graph_.streams.push_back(stream);
  return static_cast<int>(graph_.streams.size()) - 1;
}

bool LaneBuilder::IsTrue(LaneOp op, ElementType type, uint64_t a, uint64_t b) {
  const int unused = 64 - BitWidth(type);
  // Shifted to the top, numbers of any width compare as the widest do.
  const uint64_t x = a << unused, y = b << unused;
  const bool is_less = IsSigned(type) ? static_cast<int64_t>(x) < static_cast<int64_t>(y) : x < y;
  if (op == LaneOp::kEq) return x == y;
  if (op == LaneOp::kNe) return x != y;
  return is_less || (op == LaneOp::kLe && x == y);
}

// What the formulas' words leave to be dropped: masks before shifts that lose those bits, zeros that are added.
std::optional<int> LaneBuilder::Simplified(const LaneNode& n) const {
  const auto is_pred = [&](int id, uint64_t bits) {
    return id >= 0 && node(id).op == LaneOp::kConstant && node(id).type == ElementType::kPred && node(id).bits == bits;
  };
  if (n.op == LaneOp::kSelect && (is_pred(n.a, 1) || n.b == n.c)) return n.b;
  if (n.op == LaneOp::kSelect && is_pred(n.a, 0)) return n.c;
  if (n.type == ElementType::kPred && (n.op == LaneOp::kAnd || n.op == LaneOp::kOr)) {
    const uint64_t neutral = n.op == LaneOp::kAnd ? 1 : 0;
    if (is_pred(n.a, neutral) || is_pred(n.b, 1 - neutral) || n.a == n.b) return n.b;
    if (is_pred(n.b, neutral) || is_pred(n.a, 1 - neutral)) return n.a;
  }
  if (n.op == LaneOp::kNot && node(n.a).op == LaneOp::kNot) return node(n.a).a;
  if (n.b < 0 || node(n.b).op != LaneOp::kConstant) return std::nullopt;
  const uint64_t constant = node(n.b).bits;
  const bool is_float = IsFloat(n.type);
  // x - (+0) is x for every number.
  if (constant == 0 && n.op == LaneOp::kSub) return n.a;
  if (constant == 0 && !is_float &&
      (n.op == LaneOp::kOr || n.op == LaneOp::kXor || n.op == LaneOp::kAdd || n.op == LaneOp::kShl ||
       n.op == LaneOp::kShr))
    return n.a;
  return std::nullopt;
}

// A comparison of a number that is selected among constants with another one: what was selected by tells it.
std::optional<int> LaneBuilder::DecidedBySelection(const LaneNode& n) {
  if (n.op < LaneOp::kEq || n.op > LaneOp::kLe) return std::nullopt;
  const ElementType type = TypeOf(n.a);
  if (!IsIntegral(type)) return std::nullopt;
  const bool is_left = node(n.b).op == LaneOp::kConstant;
  int selection = is_left ? n.a : n.b;
  const int other = is_left ? n.b : n.a;
  if (node(other).op != LaneOp::kConstant) return std::nullopt;
  if (node(selection).op == LaneOp::kConstant)
    return Constant(ElementType::kPred, IsTrue(n.op, type, node(n.a).bits, node(n.b).bits) ? 1 : 0);
  while (node(selection).op == LaneOp::kBitcast && IsIntegral(TypeOf(node(selection).a))) selection = node(selection).a;
  const LaneNode s = node(selection);
  const auto is_constant = [&](int id) { return node(id).op == LaneOp::kConstant; };
  if (s.op != LaneOp::kSelect || (!is_constant(s.b) && !is_constant(s.c))) return std::nullopt;
  // The other choice is a number of any kind, or again one of these.
  const auto compared = [&](int choice) {
    const int x = Bitcast(choice, type);
    return is_left ? Compare(n.op, x, other) : Compare(n.op, other, x);
  };
  const int yes = compared(s.b), no = compared(s.c), p = s.a;
  const auto truth = [&](int id) { return is_constant(id) ? static_cast<int>(node(id).bits) : -1; };
  if (truth(yes) == truth(no) && truth(yes) >= 0) return yes;
  if (truth(yes) == 1) return truth(no) == 0 ? p : Add(LaneOp::kOr, ElementType::kPred, p, no);
  if (truth(no) == 0) return Add(LaneOp::kAnd, ElementType::kPred, p, yes);
  const int not_p = Add(LaneOp::kNot, ElementType::kPred, p);
  if (truth(yes) == 0) return truth(no) == 1 ? not_p : Add(LaneOp::kAnd, ElementType::kPred, not_p, no);
  if (truth(no) == 1) return Add(LaneOp::kOr, ElementType::kPred, not_p, yes);
  return Select(p, yes, no);
}

int LaneBuilder::Add(LaneNode node) {
  if (node.op != LaneOp::kConstant) node.lanes = static_cast<uint8_t>(lanes_);
  if (const std::optional<int> known = Simplified(node)) return *known;
  if (const std::optional<int> known = DecidedBySelection(node)) return *known;
  if (node.op == LaneOp::kShl && this->node(node.b).op == LaneOp::kConstant) {
    const auto width = static_cast<uint64_t>(BitWidth(node.type));
    const LaneNode from = this->node(node.a);
    const uint64_t by = this->node(node.b).bits;
    const bool has_constant = from.b >= 0 && this->node(from.b).op == LaneOp::kConstant;
    if (has_constant && by < width) {
      const uint64_t constant = this->node(from.b).bits, kept = (~uint64_t{0} >> (64 - width)) >> by;
      if (from.op == LaneOp::kAnd && (constant & kept) == kept) return Add(LaneOp::kShl, node.type, from.a, node.b);
      if (from.op == LaneOp::kShl && constant + by < width)
        return Add(LaneOp::kShl, node.type, from.a, Constant(node.type, constant + by));
    }
  }
  const auto [it, is_new] = known_.try_emplace(node, static_cast<int>(graph_.nodes.size()));
  if (!is_new) return it->second;
  graph_.nodes.push_back(node);
  // A constant is made before the loop, wherever it stands.
  if (is_region_open_) in_region_.push_back(node);
  return it->second;
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
  const int is_negative =
      Compare(LaneOp::kLt, Bitcast(x, SignedOf(StorageBytes(from))), Constant(SignedOf(StorageBytes(from)), 0));
  const int quiet = Select(is_negative, Constant(type, NanBits(type) | SignBits(type)), Constant(type, NanBits(type)));
  return Select(is_nan, quiet, number);
}

int LaneBuilder::TotalOrderKey(int x) {
  const ElementType s = SignedOf(StorageBytes(TypeOf(x))), u = UnsignedOfWidth(StorageBytes(TypeOf(x)));
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
      const MiniFloat* format = ByteFormat(key.storage);
      if (format == nullptr) return std::nullopt;
      return Value{DecodeFrom(*this, code, *format)};
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
  if (key.opcode == Opcode::kDivide) return number(LaneOp::kDiv);
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
    return Value{Select(is_number, with_sign(ConstantOf(t, 1)), x[0].node), Nans::kPending};
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
  if (width < 4 && shifts) {
    // In wider lanes: what a count from the width on shifts out, or in, the wider shift does too.
    const ElementType wide = key.opcode == Opcode::kShiftRightArithmetic ? ElementType::kS32 : ElementType::kU32;
    const auto extended = [&](int a, ElementType from, ElementType to) {
      return Add(LaneOp::kExtend, to, Bitcast(a, from));
    };
    const LaneOp op = key.opcode == Opcode::kShiftLeft ? LaneOp::kShl
                      : wide == ElementType::kS32      ? LaneOp::kSar
                                                       : LaneOp::kShr;
    const LaneNode by = node(x[1].node);
    const int count = by.op == LaneOp::kConstant ? Constant(wide, by.bits & ((uint64_t{1} << (8 * width)) - 1))
                                                 : Bitcast(extended(x[1].node, u, ElementType::kU32), wide);
    const int shifted =
        Add(op, wide, extended(x[0].node, wide == ElementType::kS32 ? SignedOf(width) : u, wide), count);
    return Value{Bitcast(Add(LaneOp::kTruncate, u, shifted), t)};
  }
  if (width < 4) {
    if (!divides) return std::nullopt;
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
    const ElementType as = key.opcode == Opcode::kShiftRightLogical ? u : SignedOf(width);
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

std::optional<Value> LaneBuilder::Converted(ElementType to, Value x) {
  const ElementType from = TypeOf(x.node);
  if (from == to) return x;
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

std::optional<Value> LaneBuilder::Rounded(Value x, ElementType storage) {
  const ElementType f = ElementType::kF32, u = ElementType::kU32;
  if (TypeOf(x.node) != f) return std::nullopt;
  if (storage == ElementType::kF16) {
    const int half = Add(LaneOp::kFloatToHalf, ElementType::kU16, x.node);
    const int number = Add(LaneOp::kHalfToFloat, f, half);
    return Value{number, x.nans == Nans::kPending ? Nans::kPending : Nans::kSigned};
  }
  if (storage == ElementType::kBF16) {
    const int bits = Bitcast(x.node, u);
    const int odd = Add(LaneOp::kAnd, u, Add(LaneOp::kShr, u, bits, Constant(u, 16)), Constant(u, 1));
    const int up = Add(LaneOp::kAdd, u, Add(LaneOp::kAdd, u, bits, Constant(u, 0x7fff)), odd);
    const int number = Bitcast(Add(LaneOp::kAnd, u, up, Constant(u, 0xffff0000u)), f);
    // The rounding may carry a NaN's bits away.
    if (x.nans == Nans::kPending)
      return Value{Select(Compare(LaneOp::kEq, x.node, x.node), number, Constant(f, kNanF32))};
    return Value{QuietNanOf(x.node, number)};
  }
  if (const MiniFloat* format = ByteFormat(storage))
    return Value{DecodeFrom(*this, EncodeAs(*this, Seen(x), *format), *format)};
  return std::nullopt;
}

std::optional<Value> LaneBuilder::Widen(int stored, ElementType storage) {
  const ElementType f = ElementType::kF32, u = ElementType::kU32;
  if (const MiniFloat* format = ByteFormat(storage))
    return Value{DecodeFrom(*this, Add(LaneOp::kExtend, u, stored), *format)};
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
      return Add(LaneOp::kFloatToHalf, ElementType::kU16, x);
    }
    if (storage != ElementType::kBF16) return std::nullopt;
    const std::optional<Value> rounded = Rounded(value, storage);
    if (!rounded) return std::nullopt;
    value = *rounded;
  }
  const int x = Seen(value);
  const ElementType u = ElementType::kU32;
  if (storage == ElementType::kF16) return Add(LaneOp::kFloatToHalf, ElementType::kU16, x);
  if (storage == ElementType::kBF16)
    return Add(LaneOp::kTruncate, ElementType::kU16, Add(LaneOp::kShr, u, Bitcast(x, u), Constant(u, 16)));
  if (IsIntegral(storage) && StorageBytes(storage) < 4 && StorageBytes(TypeOf(x)) == 4)
    return Add(LaneOp::kTruncate, UnsignedOfWidth(StorageBytes(storage)), x);
  return std::nullopt;
}

}  // namespace krafla::cpu::native
