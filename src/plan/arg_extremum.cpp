// SPDX-License-Identifier: Apache-2.0
#include "plan/arg_extremum.h"

#include <algorithm>

namespace krafla::plan {
namespace {

// The parts of the combiner as its formula names them.
class ArgExtremumMatch {
 public:
  explicit ArgExtremumMatch(const ElementProgram& combiner) : combiner_(combiner) {}

  // Whether the value is the larger one; nothing: it is not such a combiner.
  std::optional<bool> IsLargest() const {
    const Node &value = At(combiner_.results[0]), &index = At(combiner_.results[1]);
    if (!IsSelectOf(value, 0, 2) || !IsSelectOf(index, 1, 3)) return std::nullopt;
    for (const bool is_largest : {true, false}) {
      const NodeId takes = value.operands[0];
      if (IsTaking(takes, is_largest) &&
          IsOr(index.operands[0], [&](NodeId a, NodeId b) { return a == takes && IsTie(b); }))
        return is_largest;
    }
    return std::nullopt;
  }

  // Of a combiner of floats that IsLargest() knows: what takes the left value, and the part of it that asks for a NaN.
  NodeId Taking() const { return At(combiner_.results[0]).operands[0]; }
  NodeId AsksForNan() const {
    const Node& takes = At(Taking());
    if (takes.op != NodeOp::kHlo || takes.opcode != Opcode::kOr) return kNoNode;
    return takes.operands[IsCompare(takes.operands[0], 0, 0, ComparisonDirection::kNe) ? 0 : 1];
  }
  const Node& Param(uint64_t number) const {
    return *std::ranges::find_if(combiner_.nodes,
                                 [&](const Node& n) { return n.op == NodeOp::kParam && n.bits == number; });
  }

 private:
  const Node& At(NodeId id) const { return combiner_.nodes[static_cast<std::size_t>(id)]; }
  bool IsParam(NodeId id, uint64_t number) const {
    return id != kNoNode && At(id).op == NodeOp::kParam && At(id).bits == number;
  }
  bool IsSelectOf(const Node& n, uint64_t yes, uint64_t no) const {
    return n.op == NodeOp::kHlo && n.opcode == Opcode::kSelect && IsParam(n.operands[1], yes) &&
           IsParam(n.operands[2], no);
  }
  bool IsCompare(NodeId id, uint64_t a, uint64_t b, ComparisonDirection direction) const {
    const Node& n = At(id);
    return n.op == NodeOp::kCompare && !n.total_order && n.direction == direction && IsParam(n.operands[0], a) &&
           IsParam(n.operands[1], b);
  }
  // Whether it is op(a, b) of predicates, in either order, for which `are` holds.
  template <class Function>
  bool IsOf(Opcode op, NodeId id, Function are) const {
    const Node& n = At(id);
    return n.op == NodeOp::kHlo && n.opcode == op && n.type == ElementType::kPred &&
           (are(n.operands[0], n.operands[1]) || are(n.operands[1], n.operands[0]));
  }
  template <class Function>
  bool IsOr(NodeId id, Function are) const {
    return IsOf(Opcode::kOr, id, are);
  }
  bool IsTaking(NodeId id, bool is_largest) const {
    const auto direction = is_largest ? ComparisonDirection::kGt : ComparisonDirection::kLt;
    if (IsCompare(id, 0, 2, direction)) return !IsFloat(At(At(id).operands[0]).type);
    return IsOr(id, [&](NodeId a, NodeId b) {
      return IsCompare(a, 0, 2, direction) && IsCompare(b, 0, 0, ComparisonDirection::kNe);
    });
  }
  bool IsTie(NodeId id) const {
    return IsOf(Opcode::kAnd, id, [&](NodeId a, NodeId b) {
      return IsCompare(a, 0, 2, ComparisonDirection::kEq) && IsCompare(b, 1, 3, ComparisonDirection::kLt);
    });
  }

  const ElementProgram& combiner_;
};

}  // namespace

std::optional<bool> IsLargestOfPairs(const ElementProgram& combiner) {
  return combiner.results.size() == 2 ? ArgExtremumMatch(combiner).IsLargest() : std::nullopt;
}

ElementProgram ForPairsInAnyOrder(const ElementProgram& combiner) {
  if (!IsLargestOfPairs(combiner)) return combiner;
  const ArgExtremumMatch match(combiner);
  const NodeId taking = match.Taking(), asks_for_nan = match.AsksForNan();
  if (asks_for_nan == kNoNode) return combiner;
  ElementProgram out = combiner;
  out.nodes.clear();
  std::vector<NodeId> place(combiner.nodes.size(), kNoNode);
  const auto add = [&](Node node) {
    out.nodes.push_back(node);
    return static_cast<NodeId>(out.nodes.size() - 1);
  };
  const auto compare = [&](ComparisonDirection direction, NodeId a, NodeId b) {
    return add(
        {.op = NodeOp::kCompare, .type = ElementType::kPred, .direction = direction, .operands = {a, b, kNoNode}});
  };
  const auto of_preds = [&](Opcode opcode, NodeId a, NodeId b) {
    return add({.op = NodeOp::kHlo,
                .opcode = opcode,
                .type = ElementType::kPred,
                .storage = ElementType::kPred,
                .operands = {a, b, kNoNode}});
  };
  for (std::size_t i = 0; i < combiner.nodes.size(); ++i) {
    Node node = combiner.nodes[i];
    for (NodeId& operand : node.operands)
      if (operand != kNoNode) operand = place[static_cast<std::size_t>(operand)];
    if (static_cast<NodeId>(i) == taking) {
      // v != v && (w == w || i < j)
      const NodeId w = add(match.Param(2)), left = add(match.Param(1)), right = add(match.Param(3));
      const NodeId wins = of_preds(Opcode::kOr, compare(ComparisonDirection::kEq, w, w),
                                   compare(ComparisonDirection::kLt, left, right));
      const NodeId nan = place[static_cast<std::size_t>(asks_for_nan)];
      const NodeId nan_wins = of_preds(Opcode::kAnd, nan, wins);
      for (NodeId& operand : node.operands)
        if (operand == nan) operand = nan_wins;
    }
    place[i] = add(node);
  }
  for (NodeId& result : out.results) result = place[static_cast<std::size_t>(result)];
  return out;
}

}  // namespace krafla::plan
