// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/arg_extremum.h"

namespace krafla::cpu {

using plan::Node;
using plan::NodeId;
using plan::NodeOp;

namespace {

// The parts of the combiner as its formula names them.
class ArgExtremumMatch {
 public:
  explicit ArgExtremumMatch(const plan::ElementProgram& combiner) : combiner_(combiner) {}

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

 private:
  const Node& At(NodeId id) const { return combiner_.nodes[static_cast<std::size_t>(id)]; }
  bool IsParam(NodeId id, uint64_t number) const {
    return id != plan::kNoNode && At(id).op == NodeOp::kParam && At(id).bits == number;
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

  const plan::ElementProgram& combiner_;
};

}  // namespace

namespace {

// Asks `find` for a loop of the combiner's types.
template <class Loop>
Loop FindLoop(const plan::Reduction& reduction, Loop (*find)(bool, ElementType, ElementType)) {
  const plan::ElementProgram& combiner = reduction.combiner;
  if (reduction.kind != plan::Reduction::Kind::kOther || reduction.inputs.size() != 2 || combiner.results.size() != 2)
    return nullptr;
  const std::optional<bool> is_largest = ArgExtremumMatch(combiner).IsLargest();
  if (!is_largest) return nullptr;
  const auto type_of = [&](std::size_t result) {
    return combiner.nodes[static_cast<std::size_t>(combiner.results[result])].type;
  };
  return find(*is_largest, type_of(0), type_of(1));
}

}  // namespace

ArgExtremumRows FindArgExtremum(const plan::Reduction& reduction) { return FindLoop(reduction, &FindArgExtremumRows); }
ArgExtremumColumns FindArgExtremumOfColumns(const plan::Reduction& reduction) {
  return FindLoop(reduction, &FindArgExtremumColumns);
}

}  // namespace krafla::cpu
