// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/arg_extremum.h"

#include "base/index.h"
#include "plan/arg_extremum.h"

namespace krafla::cpu {

using plan::ElementProgram;
using plan::kNoNode;
using plan::Node;
using plan::NodeId;
using plan::NodeOp;

namespace {

bool IsOfPairs(const plan::Reduction& reduction) {
  return reduction.kind == plan::Reduction::Kind::kOther && reduction.inputs.size() == 2 &&
         reduction.combiner.results.size() == 2;
}

ElementType TypeOf(const plan::Reduction& reduction, std::size_t result) {
  return reduction.combiner.nodes[At(reduction.combiner.results[result])].type;
}

// Asks `find` for a loop of the combiner's types.
template <class Loop>
Loop FindLoop(const plan::Reduction& reduction, Loop (*find)(bool, ElementType, ElementType)) {
  if (!IsOfPairs(reduction)) return nullptr;
  const std::optional<bool> is_largest = plan::IsLargestOfPairs(reduction.combiner);
  return is_largest ? find(*is_largest, TypeOf(reduction, 0), TypeOf(reduction, 1)) : nullptr;
}

// The parts of a selection's combiner as its formula names them: params 0 and 1 are what is there, 2 and 3 the next.
class SelectionMatch {
 public:
  explicit SelectionMatch(const ElementProgram& combiner) : combiner_(combiner) {}

  // How the first of the two compares with the second where it stays; nothing: it is another combiner.
  std::optional<ComparisonDirection> Direction() const {
    const Node &value = At(combiner_.results[0]), &index = At(combiner_.results[1]);
    if (!IsSelect(value) || !IsSelect(index) || value.operands[0] != index.operands[0]) return std::nullopt;
    const NodeId first = value.operands[1], second = value.operands[2], first_at = index.operands[1];
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
      if (IsCompare(exists, ComparisonDirection::kGe) && exists.operands[0] == first_at && IsZero(exists.operands[1]) &&
          IsCompare(wins, wins.direction) && wins.operands[0] == first && wins.operands[1] == second)
        return wins.direction;
    }
    return std::nullopt;
  }

 private:
  const Node& At(NodeId id) const { return combiner_.nodes[krafla::At(id)]; }
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

ArgExtremumRows FindArgExtremum(const plan::Reduction& reduction) { return FindLoop(reduction, &FindArgExtremumRows); }

ArgExtremumColumns FindPairColumns(const plan::Reduction& reduction) {
  if (!IsOfPairs(reduction)) return nullptr;
  if (const ArgExtremumColumns loop = FindLoop(reduction, &FindArgExtremumColumns)) return loop;
  const std::optional<ComparisonDirection> direction = SelectionMatch(reduction.combiner).Direction();
  return direction ? FindSelectedPairs(*direction, TypeOf(reduction, 0), TypeOf(reduction, 1)) : nullptr;
}

}  // namespace krafla::cpu
