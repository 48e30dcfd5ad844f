// SPDX-License-Identifier: Apache-2.0
// What is known of a program's integers before it runs: the range of each node, and the nodes that the ranges of their
// operands decide.
#include <algorithm>

#include "krafla/status.h"
#include "plan/element_program.h"

namespace krafla::plan {
namespace {

// The range of all values of a type; of 64-bit integers and of floats nothing is known.
Interval RangeOfType(ElementType type) {
  if (type == ElementType::kPred) return {0, 1};
  if (!IsIntegral(type) || BitWidth(type) > 32) return {};
  const int bits = BitWidth(type);
  if (IsSigned(type)) return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
  return {0, (int64_t{1} << bits) - 1};
}

Interval RangeOfConstant(const Node& n) {
  if (n.type == ElementType::kS32) return {static_cast<int32_t>(n.bits), static_cast<int32_t>(n.bits)};
  if (n.type == ElementType::kU64) return {};
  return {static_cast<int64_t>(n.bits), static_cast<int64_t>(n.bits)};
}

bool IsDecidable(ElementType type) { return type == ElementType::kPred || IsIntegral(type); }

// The truth of `a direction b` where it is the same for all values of the ranges; nothing where it is not.
std::optional<bool> Decided(ComparisonDirection direction, const Interval& a, const Interval& b) {
  const bool always_less = a.hi < b.lo, never_less = a.lo >= b.hi;
  const bool always_greater = b.hi < a.lo, never_greater = b.lo >= a.hi;
  const bool equal = a == b && a.lo == a.hi;
  const auto decide = [](bool always, bool never) { return always || never ? std::optional(always) : std::nullopt; };
  switch (direction) {
    case ComparisonDirection::kLt: return decide(always_less, never_less);
    case ComparisonDirection::kGe: return decide(never_less, always_less);
    case ComparisonDirection::kGt: return decide(always_greater, never_greater);
    case ComparisonDirection::kLe: return decide(never_greater, always_greater);
    case ComparisonDirection::kEq: return decide(equal, always_less || always_greater);
    case ComparisonDirection::kNe: return decide(always_less || always_greater, equal);
  }
  KRAFLA_UNREACHABLE();
}

}  // namespace

Interval ProgramBuilder::RangeOfHlo(const Node& n) const {
  const auto of = [&](int operand) { return RangeOf(n.operands[static_cast<std::size_t>(operand)]); };
  if (n.opcode == Opcode::kSelect) return Union(of(1), of(2));
  if (n.opcode == Opcode::kClamp) {
    const Interval low = of(0), x = of(1), high = of(2);
    return {std::min(std::max(low.lo, x.lo), high.lo), std::min(std::max(low.hi, x.hi), high.hi)};
  }
  if (!IsOneOf(n.opcode, {Opcode::kMinimum, Opcode::kMaximum, Opcode::kAdd, Opcode::kSubtract, Opcode::kMultiply,
                          Opcode::kDivide, Opcode::kRemainder}))
    return {};
  const Interval a = of(0), b = of(1);
  if (n.opcode == Opcode::kMinimum) return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
  if (n.opcode == Opcode::kMaximum) return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
  if (n.opcode == Opcode::kAdd) return a + b;
  if (n.opcode == Opcode::kSubtract) return a + b * -1;
  if (n.opcode == Opcode::kMultiply && a.lo == a.hi) return b * a.lo;
  // From here on only constants on the right are looked at, and of divisions only those of a number that is not
  // negative by a positive one.
  if (b.lo != b.hi) return {};
  if (n.opcode == Opcode::kMultiply) return a * b.lo;
  if (a.lo < 0 || b.lo <= 0) return {};
  return n.opcode == Opcode::kDivide ? Interval{a.lo / b.lo, a.hi / b.lo} : Interval{0, std::min(a.hi, b.lo - 1)};
}

Interval ProgramBuilder::MakeRange(const Node& n) const {
  if (!IsDecidable(n.type)) return {};
  const Interval all = RangeOfType(n.type);
  Interval made;
  switch (n.op) {
    case NodeOp::kConstant: return RangeOfConstant(n);
    case NodeOp::kIndex: made = program_.space.RangeOf(n.index); break;
    // The bits may be loaded as those of another type; a load whose mask is false gives 0.
    case NodeOp::kLoad: made = IsDecidable(n.storage) ? Union(RangeOfType(n.storage), {0, 0}) : Interval{}; break;
    case NodeOp::kConvert:
      if (IsDecidable(n.storage)) made = RangeOf(n.operands[0]);
      break;
    case NodeOp::kWrap: {
      const Interval narrow = RangeOfType(n.storage), operand = RangeOf(n.operands[0]);
      made = operand.Within(narrow) ? operand : narrow;
      break;
    }
    case NodeOp::kHlo: made = RangeOfHlo(n); break;
    case NodeOp::kParam:
    case NodeOp::kCompare:
    case NodeOp::kBitcast:
    case NodeOp::kRound:
    case NodeOp::kEncode:
    case NodeOp::kDecode:
    case NodeOp::kReducePrecision: break;
  }
  // What does not fit its type wraps around. 64-bit sums and products may have saturated.
  constexpr int64_t kFar = int64_t{1} << 62;
  const Interval whole = BitWidth(n.type) <= 32 ? all : Interval{IsSigned(n.type) ? -kFar : 0, kFar};
  return made.Within(whole) ? made : all;
}

std::optional<NodeId> ProgramBuilder::Known(const Node& n) {
  const auto& [a, b, c] = n.operands;
  const auto is = [&](NodeId id, uint64_t value) { return node(id).op == NodeOp::kConstant && node(id).bits == value; };
  if (n.op == NodeOp::kCompare) {
    if (!IsDecidable(node(a).type)) return std::nullopt;
    const std::optional<bool> decided = Decided(n.direction, RangeOf(a), RangeOf(b));
    return decided ? std::optional(Constant(ElementType::kPred, *decided)) : std::nullopt;
  }
  if (n.op != NodeOp::kHlo) return std::nullopt;
  if (n.opcode == Opcode::kSelect) {
    if (b == c || is(a, 1)) return b;
    return is(a, 0) ? std::optional(c) : std::nullopt;
  }
  if (!IsDecidable(n.type)) return std::nullopt;
  if (n.opcode == Opcode::kMinimum) {
    if (RangeOf(a).hi <= RangeOf(b).lo) return a;
    if (RangeOf(b).hi <= RangeOf(a).lo) return b;
  }
  if (n.opcode == Opcode::kMaximum) {
    if (RangeOf(a).lo >= RangeOf(b).hi) return a;
    if (RangeOf(b).lo >= RangeOf(a).hi) return b;
  }
  if (n.opcode == Opcode::kClamp && RangeOf(b).lo >= RangeOf(a).hi && RangeOf(b).hi <= RangeOf(c).lo) return b;
  if (n.type == ElementType::kPred && n.opcode == Opcode::kAnd) {
    if (is(a, 1) || is(b, 0)) return b;
    if (is(b, 1) || is(a, 0)) return a;
  }
  if (n.type == ElementType::kPred && n.opcode == Opcode::kOr) {
    if (is(a, 0) || is(b, 1)) return b;
    if (is(b, 0) || is(a, 1)) return a;
  }
  return std::nullopt;
}

}  // namespace krafla::plan
