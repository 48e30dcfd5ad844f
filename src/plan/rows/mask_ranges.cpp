// SPDX-License-Identifier: Apache-2.0
#include "plan/rows/mask_ranges.h"

#include <limits>

namespace krafla::plan {
namespace {

std::optional<Interval> Compared(ComparisonDirection direction, const Interval& a, const Interval& b) {
  const auto of = [](bool yes, bool no) -> std::optional<Interval> {
    if (yes) return Interval{1, 1};
    if (no) return Interval{0, 0};
    return std::nullopt;
  };
  switch (direction) {
    case ComparisonDirection::kLt: return of(a.hi < b.lo, a.lo >= b.hi);
    case ComparisonDirection::kLe: return of(a.hi <= b.lo, a.lo > b.hi);
    case ComparisonDirection::kGt: return of(a.lo > b.hi, a.hi <= b.lo);
    case ComparisonDirection::kGe: return of(a.lo >= b.hi, a.hi < b.lo);
    case ComparisonDirection::kEq: return of(false, a.hi < b.lo || a.lo > b.hi);
    case ComparisonDirection::kNe: return of(a.hi < b.lo || a.lo > b.hi, false);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Interval> MaskRanges::Of(NodeId id) {
  if (seen_[static_cast<std::size_t>(id)]) return known_[static_cast<std::size_t>(id)];
  seen_[static_cast<std::size_t>(id)] = true;
  return known_[static_cast<std::size_t>(id)] = Make(p_.nodes[static_cast<std::size_t>(id)]);
}

std::optional<Interval> MaskRanges::Make(const Node& n) {
  if (n.op == NodeOp::kIndex) return p_.space.RangeOf(n.index);
  if (n.op == NodeOp::kConstant && n.type == ElementType::kPred) {
    const int64_t v = n.bits != 0;
    return Interval{v, v};
  }
  if (n.op == NodeOp::kConstant && n.type == ElementType::kS32) {
    const auto v = static_cast<int32_t>(static_cast<uint32_t>(n.bits));
    return Interval{v, v};
  }
  if (n.op != NodeOp::kCompare && n.op != NodeOp::kHlo) return std::nullopt;
  const std::optional<Interval> a = n.operands[0] == kNoNode ? std::nullopt : Of(n.operands[0]);
  const std::optional<Interval> b = n.operands[1] == kNoNode ? std::nullopt : Of(n.operands[1]);
  if (n.op == NodeOp::kCompare) return a && b ? Compared(n.direction, *a, *b) : std::nullopt;
  if (n.type == ElementType::kS32 && a && b) {
    constexpr Interval kExact{int64_t{std::numeric_limits<int32_t>::min()}, std::numeric_limits<int32_t>::max()};
    std::optional<Interval> out;
    if (n.opcode == Opcode::kAdd) out = *a + *b;
    if (n.opcode == Opcode::kSubtract) out = *a + *b * -1;
    return out && out->Within(kExact) ? out : std::nullopt;
  }
  if (n.type != ElementType::kPred) return std::nullopt;
  const auto is = [](const std::optional<Interval>& v, int64_t value) { return v && v->lo == value && v->hi == value; };
  if (n.opcode == Opcode::kAnd && (is(a, 0) || is(b, 0))) return Interval{0, 0};
  if (n.opcode == Opcode::kOr && (is(a, 1) || is(b, 1))) return Interval{1, 1};
  if ((n.opcode == Opcode::kAnd || n.opcode == Opcode::kOr) && a && b && a->lo == a->hi && *a == *b) return a;
  if (n.opcode == Opcode::kNot && a) return Interval{1 - a->hi, 1 - a->lo};
  return std::nullopt;
}

}  // namespace krafla::plan
