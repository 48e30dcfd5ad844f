// SPDX-License-Identifier: Apache-2.0
#include "plan/comparator_keys.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "ir/mini_float.h"

namespace krafla::plan {
namespace {

// Whether two nodes do the same with their operands, where params of the left side stand for those of the right side.
bool DoesTheSame(const Node& x, const Node& y) {
  if (x.op != y.op || x.type != y.type) return false;
  if (x.op == NodeOp::kParam) return x.bits % 2 == 0 && y.bits == x.bits + 1;
  return x.opcode == y.opcode && x.storage == y.storage && x.bits == y.bits && x.direction == y.direction &&
         x.total_order == y.total_order && x.op != NodeOp::kLoad;
}

// Whether node `a` computes from the params of the left side what `b` computes from those of the right side. Equal
// nodes of a program are one, so that each node of the left side has one counterpart and is looked at once.
bool SameSide(const ElementProgram& p, NodeId a, NodeId b) {
  std::vector<NodeId> counterpart(p.nodes.size(), kNoNode);
  std::vector<NodeId> stack;
  const auto pair = [&](NodeId x, NodeId y) {
    if (x == kNoNode || y == kNoNode) return x == y;
    NodeId& known = counterpart[static_cast<std::size_t>(x)];
    if (known != kNoNode) return known == y;
    known = y;
    stack.push_back(x);
    return true;
  };
  if (!pair(a, b)) return false;
  while (!stack.empty()) {
    const std::size_t at = static_cast<std::size_t>(stack.back());
    stack.pop_back();
    const Node &x = p.nodes[at], &y = p.nodes[static_cast<std::size_t>(counterpart[at])];
    if (!DoesTheSame(x, y)) return false;
    for (std::size_t i = 0; i < 3; ++i)
      if (!pair(x.operands[i], y.operands[i])) return false;
  }
  return true;
}

std::optional<KeyRule> OneKey(const ElementProgram& p, const Node& n) {
  if (n.op != NodeOp::kCompare) return std::nullopt;
  const bool less = n.direction == ComparisonDirection::kLt, greater = n.direction == ComparisonDirection::kGt;
  if (!less && !greater) return std::nullopt;
  KeyRule rule;
  rule.total_order = n.total_order;
  if (SameSide(p, n.operands[0], n.operands[1])) {
    rule.node = n.operands[0];
    rule.descending = greater;
  } else if (SameSide(p, n.operands[1], n.operands[0])) {
    rule.node = n.operands[1];
    rule.descending = less;
  } else {
    return std::nullopt;
  }
  rule.type = p.nodes[static_cast<std::size_t>(rule.node)].type;
  return rule;
}

// Whether `equal` is true exactly where neither side of the comparison `order` comes before the other.
bool IsTieOf(const Node& equal, const Node& order) {
  if (equal.op != NodeOp::kCompare || equal.direction != ComparisonDirection::kEq ||
      equal.total_order != order.total_order)
    return false;
  const NodeId a = order.operands[0], b = order.operands[1];
  return (equal.operands[0] == a && equal.operands[1] == b) || (equal.operands[0] == b && equal.operands[1] == a);
}

bool AppendKeys(const ElementProgram& p, NodeId id, std::vector<KeyRule>& keys) {
  const auto node = [&](NodeId n) -> const Node& { return p.nodes[static_cast<std::size_t>(n)]; };
  const Node& n = node(id);
  if (auto key = OneKey(p, n)) {
    keys.push_back(*key);
    return true;
  }
  if (n.op != NodeOp::kHlo) return false;
  // Appends the key of one comparison, and what decides where that one ties.
  const auto then = [&](NodeId first, NodeId tie, NodeId rest) {
    auto key = OneKey(p, node(first));
    if (!key || !IsTieOf(node(tie), node(first))) return false;
    keys.push_back(*key);
    return AppendKeys(p, rest, keys);
  };
  if (n.opcode == Opcode::kSelect) return then(n.operands[2], n.operands[0], n.operands[1]);
  if (n.opcode != Opcode::kOr) return false;
  for (std::size_t side : {0u, 1u}) {
    const Node& both = node(n.operands[1 - side]);
    if (both.op != NodeOp::kHlo || both.opcode != Opcode::kAnd) continue;
    for (std::size_t tie : {0u, 1u}) {
      const std::size_t before = keys.size();
      if (then(n.operands[side], both.operands[tie], both.operands[1 - tie])) return true;
      keys.resize(before);
    }
  }
  return false;
}

// How many of the last bits of a float that is no select follow from the others, because its values come from a type of
// a shorter mantissa.
int OwnSameBits(const Node& n, std::span<const ElementType> types) {
  // In f32, where the subnormal numbers of narrow types are normal, but for bf16's, which keep their places, and the
  // least f8e8m0fnu, which has one bit there.
  const auto of_type = [&](ElementType type) {
    const MiniFloat* format = FindMiniFloat(type);
    return n.type == ElementType::kF32 && format != nullptr ? 23 - std::max(format->mantissa_bits, 1) : 0;
  };
  switch (n.op) {
    case NodeOp::kParam: return of_type(types[n.bits / 2]);
    case NodeOp::kRound: return of_type(n.storage);
    case NodeOp::kConstant: return n.bits == 0 ? 32 : std::min(std::countr_zero(n.bits), 32);
    case NodeOp::kHlo:
    case NodeOp::kIndex:
    case NodeOp::kLoad:
    case NodeOp::kCompare:
    case NodeOp::kConvert:
    case NodeOp::kBitcast:
    case NodeOp::kWrap:
    case NodeOp::kEncode:
    case NodeOp::kDecode:
    case NodeOp::kReducePrecision: return 0;
  }
  KRAFLA_UNREACHABLE();
}

// The same of a float that may be chosen among several.
int SameBits(const ElementProgram& p, NodeId id, std::span<const ElementType> types) {
  std::vector<bool> wanted(p.nodes.size(), false);
  wanted[static_cast<std::size_t>(id)] = true;
  int bits = 32;
  for (std::size_t i = p.nodes.size(); i-- > 0;) {
    if (!wanted[i]) continue;
    const Node& n = p.nodes[i];
    if (n.op == NodeOp::kHlo && n.opcode == Opcode::kSelect) {
      wanted[static_cast<std::size_t>(n.operands[1])] = wanted[static_cast<std::size_t>(n.operands[2])] = true;
    } else {
      bits = std::min(bits, OwnSameBits(n, types));
    }
  }
  return bits;
}

}  // namespace

std::vector<KeyRule> FindKeys(const ElementProgram& comparator) {
  std::vector<KeyRule> keys;
  if (!AppendKeys(comparator, comparator.results[0], keys)) keys.clear();
  return keys;
}

std::vector<int> KeyOperands(const ElementProgram& comparator, NodeId node) {
  std::vector<bool> needed(comparator.nodes.size(), false);
  needed[static_cast<std::size_t>(node)] = true;
  std::vector<int> out;
  for (std::size_t i = comparator.nodes.size(); i-- > 0;) {
    if (!needed[i]) continue;
    const Node& n = comparator.nodes[i];
    if (n.op == NodeOp::kParam) out.push_back(static_cast<int>(n.bits / 2));
    for (NodeId o : n.operands)
      if (o != kNoNode) needed[static_cast<std::size_t>(o)] = true;
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

KeyWidth WidthOfKey(const ElementProgram& comparator, const KeyRule& rule, std::span<const ElementType> types) {
  const Node& key = comparator.nodes[static_cast<std::size_t>(rule.node)];
  if (rule.type == ElementType::kPred) return {1, 0};
  if (IsFloat(rule.type)) return {64, SameBits(comparator, rule.node, types)};
  const ElementType from = key.op == NodeOp::kParam  ? types[key.bits / 2]
                           : key.op == NodeOp::kWrap ? key.storage
                                                     : rule.type;
  return {BitWidth(from), 0};
}

}  // namespace krafla::plan
