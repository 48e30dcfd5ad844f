// SPDX-License-Identifier: Apache-2.0
#include "plan/window_selection.h"

namespace krafla::plan {
namespace {

// The parts of the combiner as its formula names them: params 0 and 1 are what is there, 2 and 3 the next.
class SelectionMatch {
 public:
  explicit SelectionMatch(const ElementProgram& combiner) : combiner_(combiner) {}

  std::optional<WindowSelection> Match() const {
    const Node &value = At(combiner_.results[0]), &index = At(combiner_.results[1]);
    if (!IsSelect(value) || !IsSelect(index) || value.operands[0] != index.operands[0]) return std::nullopt;
    const NodeId first = value.operands[1], second = value.operands[2], first_at = index.operands[1];
    if (!IsSelect(At(first))) return std::nullopt;
    const NodeId in_order = At(first).operands[0];
    if (!IsChoice(first, in_order, 0, 2) || !IsChoice(second, in_order, 2, 0) || !IsChoice(first_at, in_order, 1, 3) ||
        !IsChoice(index.operands[2], in_order, 3, 1))
      return std::nullopt;
    const Node &order = At(in_order), &stays = At(value.operands[0]);
    if (!IsCompare(order, ComparisonDirection::kLe) || !IsParam(order.operands[0], 1) || !IsParam(order.operands[1], 3))
      return std::nullopt;
    if (stays.op != NodeOp::kHlo || stays.opcode != Opcode::kAnd) return std::nullopt;
    for (const bool is_swapped : {false, true}) {
      const Node &exists = At(stays.operands[is_swapped ? 1 : 0]), &wins = At(stays.operands[is_swapped ? 0 : 1]);
      if (!IsCompare(exists, ComparisonDirection::kGe) || exists.operands[0] != first_at || !IsZero(exists.operands[1]))
        continue;
      WindowSelection out{.is_of_floats = IsFloat(At(first).type)};
      if (IsCompare(wins, wins.direction) && wins.operands[0] == first && wins.operands[1] == second)
        out.direction = wins.direction;
      return out;
    }
    return std::nullopt;
  }

 private:
  const Node& At(NodeId id) const { return combiner_.nodes[static_cast<std::size_t>(id)]; }
  static bool IsSelect(const Node& n) { return n.op == NodeOp::kHlo && n.opcode == Opcode::kSelect; }
  static bool IsCompare(const Node& n, ComparisonDirection direction) {
    return n.op == NodeOp::kCompare && !n.total_order && n.direction == direction;
  }
  bool IsParam(NodeId id, uint64_t number) const { return At(id).op == NodeOp::kParam && At(id).bits == number; }
  bool IsZero(NodeId id) const { return At(id).op == NodeOp::kConstant && At(id).bits == 0; }
  bool IsChoice(NodeId id, NodeId condition, uint64_t yes, uint64_t no) const {
    const Node& n = At(id);
    return IsSelect(n) && n.operands[0] == condition && IsParam(n.operands[1], yes) && IsParam(n.operands[2], no);
  }

  const ElementProgram& combiner_;
};

}  // namespace

std::optional<WindowSelection> MatchWindowSelection(const ElementProgram& combiner) {
  return combiner.results.size() == 2 ? SelectionMatch(combiner).Match() : std::nullopt;
}

}  // namespace krafla::plan
