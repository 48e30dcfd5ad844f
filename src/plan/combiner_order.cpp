// SPDX-License-Identifier: Apache-2.0
#include "plan/combiner_order.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "ir/comparison.h"
#include "plan/arg_extremum.h"
#include "plan/window_selection.h"

namespace krafla::plan {
namespace {

// Numbers for the values of a combiner: equal ones for equal values, also of the combiner with its sides exchanged.
class ValueNumbers {
 public:
  explicit ValueNumbers(const ElementProgram& combiner) : combiner_(combiner) {}

  std::vector<int> OfResults(bool exchanged) {
    std::vector<int> place;
    for (const Node& node : combiner_.nodes) place.push_back(NumberOf(node, place, exchanged));
    std::vector<int> out;
    for (const NodeId result : combiner_.results) out.push_back(place[static_cast<std::size_t>(result)]);
    return out;
  }

 private:
  using Key = std::tuple<NodeOp, Opcode, ElementType, ElementType, ComparisonDirection, bool, std::array<int, 4>, int,
                         IndexId, uint64_t>;

  int NumberOf(const Node& node, const std::vector<int>& place, bool exchanged) {
    const auto number = [&](NodeId id) { return id == kNoNode ? -1 : place[static_cast<std::size_t>(id)]; };
    std::array<int, 4> operands = {number(node.operands[0]), number(node.operands[1]), number(node.operands[2]),
                                   number(node.mask)};
    ComparisonDirection direction = node.direction;
    if (operands[0] > operands[1] && operands[1] >= 0) {
      if (node.op == NodeOp::kCompare) direction = Mirrored(direction), std::swap(operands[0], operands[1]);
      else if (node.op == NodeOp::kHlo && HasTrait(node.opcode, op_trait::kCommutative))
        std::swap(operands[0], operands[1]);
    }
    uint64_t bits = node.bits;
    const uint64_t sides = combiner_.results.size();
    if (node.op == NodeOp::kParam && exchanged) bits = bits < sides ? bits + sides : bits - sides;
    const Key key{node.op,          node.opcode, node.type,   node.storage, direction,
                  node.total_order, operands,    node.buffer, node.index,   bits};
    return numbers_.try_emplace(key, static_cast<int>(numbers_.size())).first->second;
  }

  const ElementProgram& combiner_;
  std::map<Key, int> numbers_;
};

bool IsOrder(const WindowSelection& selection) {
  return selection.direction && *selection.direction != ComparisonDirection::kEq &&
         *selection.direction != ComparisonDirection::kNe;
}

}  // namespace

bool IsCommutative(const ElementProgram& combiner) {
  ValueNumbers numbers(combiner);
  const std::vector<int> results = numbers.OfResults(false);
  return results == numbers.OfResults(true);
}

bool DependsOnOrder(const Reduction& reduction) {
  // ForPairsInAnyOrder() sees to the pairs.
  return reduction.kind == Reduction::Kind::kOther && !IsLargestOfPairs(reduction.combiner) &&
         !IsCommutative(reduction.combiner);
}

bool CombinesInTurn(const Reduction& reduction) {
  if (reduction.kind != Reduction::Kind::kOther) return false;
  const std::optional<WindowSelection> selection = MatchWindowSelection(reduction.combiner);
  return selection && (selection->is_of_floats || !IsOrder(*selection));
}

bool IsOrderWithoutNan(const Reduction& reduction) {
  const std::optional<WindowSelection> selection = MatchWindowSelection(reduction.combiner);
  return selection && IsOrder(*selection);
}

}  // namespace krafla::plan
