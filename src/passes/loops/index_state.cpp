// SPDX-License-Identifier: Apache-2.0
// A loop is given an array that is made of indices alone, as the mask of causal attention that all layers share, and
// passes it on: n x n elements, or as many for each head. The body makes it itself: fusion computes such arrays where
// they are read, and a kernel that computes a mask sees which elements it hides (plan/rows/column_bounds.h), which a
// stored one does not say.
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "passes/loops/loop.h"
#include "passes/passes.h"

namespace krafla {
namespace {

// The copy of `value` and of what it is made of, in the body.
Instruction* CopyInto(Computation& body, Instruction* value,
                      std::unordered_map<const Instruction*, Instruction*>& copies) {
  std::vector<Instruction*> open{value};
  while (!open.empty()) {
    Instruction* i = open.back();
    std::vector<Instruction*> operands;
    for (Instruction* o : i->operands())
      if (const auto copy = copies.find(o); copy != copies.end()) operands.push_back(copy->second);
      else open.push_back(o);
    if (operands.size() != i->operand_count()) continue;
    open.pop_back();
    if (!copies.contains(i)) copies[i] = body.AddClone(*i, std::move(operands));
  }
  return copies.at(value);
}

bool MakeInBody(const Loop& loop) {
  bool changed = false;
  std::unordered_map<const Instruction*, Instruction*> copies;
  const std::vector<Instruction*> elements(loop.body().parameters()[0]->users().begin(),
                                           loop.body().parameters()[0]->users().end());
  for (Instruction* element : elements) {
    const std::optional<std::size_t> n = Loop::ElementOf(*element);
    Instruction* initial = n ? loop.Initial(*n) : nullptr;
    if (initial == nullptr || !loop.IsInvariant(*n) || !IsMadeOfIndices(*initial)) continue;
    const std::vector<Instruction*> users(element->users().begin(), element->users().end());
    for (Instruction* user : users)
      for (const std::size_t place : user->PlacesOf(element)) {
        if (user == loop.body().root() && place == *n) continue;
        user->ReplaceOperand(place, CopyInto(loop.body(), initial, copies));
        changed = true;
      }
  }
  return changed;
}

}  // namespace

bool IsMadeOfIndices(const Instruction& value) {
  constexpr std::size_t kMostInstructions = 16;
  constexpr int kMostSteps = 6;  // as fusion computes where they are read (plan/fusion/keep.cpp)
  if (!value.shape().IsArray() || value.shape().element_count() <= 1) return false;
  std::unordered_set<const Instruction*> seen{&value};
  std::vector<const Instruction*> open{&value};
  int steps = 0;
  bool has_index = false;
  while (!open.empty()) {
    const Instruction& i = *open.back();
    open.pop_back();
    if (!IsStatic(i) || !i.control_predecessors().empty() || seen.size() > kMostInstructions) return false;
    const bool is_number = i.opcode() == Opcode::kConstant && i.shape().element_count() == 1;
    has_index = has_index || i.opcode() == Opcode::kIota;
    const bool is_moved = IsOneOf(i.opcode(), {Opcode::kBroadcast, Opcode::kReshape, Opcode::kTranspose});
    const bool is_step = IsOneOf(
        i.opcode(), {Opcode::kCompare, Opcode::kAnd, Opcode::kOr, Opcode::kNot, Opcode::kAdd, Opcode::kSubtract});
    if (!is_number && !is_moved && !is_step && i.opcode() != Opcode::kIota) return false;
    if (is_step && (++steps > kMostSteps || IsFloat(i.operand(0)->shape().element_type()))) return false;
    for (const Instruction* o : i.operands())
      if (seen.insert(o).second) open.push_back(o);
  }
  return has_index && steps > 0;
}

Result<bool> IndexState(Module& module, const PassOptions&) {
  SideEffects effects;
  return RewriteLoops(module, effects, [&](Instruction* i, std::vector<Instruction*>&) -> Result<bool> {
    const auto loop = Loop::Of(i);
    if (!loop || !MakeInBody(*loop)) return false;
    RemoveDead(loop->body(), effects);
    KRAFLA_TRY(loop->body().SortTopologically());
    return true;
  });
}

}  // namespace krafla
