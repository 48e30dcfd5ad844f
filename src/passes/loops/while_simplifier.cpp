// SPDX-License-Identifier: Apache-2.0
// Slims the state of loops: an element that the body passes on as it is needs no copy outside, and where it is a
// constant none inside either; elements that nobody needs go, with what computes them (XLA: while_loop_simplifier.cc,
// while_loop_constant_sinking.cc).
#include "passes/loops/loop.h"
#include "passes/passes.h"

namespace krafla {

namespace {

// A constant, or what is made of one for free.
bool IsFreeConstant(const Instruction& i, int depth = 4) {
  if (i.opcode() == Opcode::kConstant || i.opcode() == Opcode::kIota) return true;
  bool passes_on = i.opcode() == Opcode::kBroadcast || i.opcode() == Opcode::kReshape;
  return passes_on && depth > 0 && IsFreeConstant(*i.operand(0), depth - 1);
}

Instruction* CloneInto(Computation& c, const Instruction& i) {
  std::vector<Instruction*> operands;
  for (const Instruction* operand : i.operands()) operands.push_back(CloneInto(c, *operand));
  return c.AddClone(i, std::move(operands));
}

// Elements of the parameter of `c` with number `n` become a copy of `value`.
bool SinkConstant(Computation& c, std::size_t n, const std::vector<Instruction*>& uses, const Instruction& value) {
  Instruction* copy = nullptr;
  for (Instruction* use : uses) {
    // Being passed on does not count as a use.
    bool used = use->IsRoot();
    for (const Instruction* user : use->users()) used |= user != c.root() || c.root()->opcode() != Opcode::kTuple;
    if (!used) continue;
    if (copy == nullptr) copy = CloneInto(c, value);
    std::vector<Instruction*> users(use->users().begin(), use->users().end());
    bool is_root = use->IsRoot();
    for (Instruction* user : users) {
      for (std::size_t k : user->PlacesOf(use)) {
        if (user == c.root() && user->opcode() == Opcode::kTuple && k == n) continue;  // stays invariant
        user->ReplaceOperand(k, copy);
      }
    }
    if (is_root) c.set_root(copy);
  }
  return copy != nullptr;
}

// The get-tuple-elements of a tuple of `size`, by element.
std::vector<std::vector<Instruction*>> ElementsOf(const Instruction& tuple, std::size_t size) {
  std::vector<std::vector<Instruction*>> out(size);
  for (Instruction* user : tuple.users())
    if (user->opcode() == Opcode::kGetTupleElement)
      out[static_cast<std::size_t>(user->attr<TupleIndexAttributes>().index)].push_back(user);
  return out;
}

bool BypassInvariants(const Loop& loop) {
  bool changed = false;
  const auto results = ElementsOf(*loop.instruction(), loop.size());
  const auto in_body = ElementsOf(*loop.body().parameters()[0], loop.size());
  const auto in_condition = ElementsOf(*loop.condition().parameters()[0], loop.size());
  for (std::size_t n = 0; n < loop.size(); ++n) {
    if (!loop.IsInvariant(n)) continue;
    Instruction* initial = loop.Initial(n);
    for (Instruction* user : results[n]) {
      if (initial == nullptr) break;
      if (user->users().empty() && !user->IsRoot()) continue;
      Replace(user, initial);
      changed = true;
    }
    if (initial == nullptr || !IsFreeConstant(*initial) || !IsStatic(*initial)) continue;
    changed |= SinkConstant(loop.body(), n, in_body[n], *initial);
    changed |= SinkConstant(loop.condition(), n, in_condition[n], *initial);
  }
  return changed;
}

// A result that is not a tuple instruction is taken apart and put together, so that each element can be told apart.
bool EndInTuple(Computation& c) {
  Instruction* root = c.root();
  if (!root->shape().IsTuple() || root->opcode() == Opcode::kTuple || root->shape().tuple_elements().empty())
    return false;
  Rewriter rewrite(*root);
  std::vector<Instruction*> elements;
  for (std::size_t n = 0; n < root->shape().tuple_elements().size(); ++n)
    elements.push_back(rewrite.Element(root, static_cast<int64_t>(n)));
  c.set_root(rewrite.Tuple(std::move(elements)));
  return true;
}

std::vector<std::size_t> LiveElements(const Loop& loop, SideEffects& effects) {
  std::vector<bool> live(loop.size(), false);
  std::vector<const Instruction*> work;
  std::unordered_set<const Instruction*> seen;
  auto need = [&](const Instruction* i) {
    if (seen.insert(i).second) work.push_back(i);
  };
  auto keep = [&](std::size_t n) {
    if (live[n]) return;
    live[n] = true;
    need(loop.Next(n));
  };
  for (const Instruction* user : loop.instruction()->users())
    if (!user->users().empty() || user->IsRoot())
      keep(static_cast<std::size_t>(user->attr<TupleIndexAttributes>().index));
  for (const Instruction* user : loop.condition().parameters()[0]->users()) keep(*Loop::ElementOf(*user));
  for (const auto& i : loop.body().instructions())
    if (effects.Has(*i)) need(i.get());
  const Instruction* state = loop.body().parameters()[0];
  while (!work.empty()) {
    const Instruction* i = work.back();
    work.pop_back();
    if (i->opcode() == Opcode::kGetTupleElement && i->operand(0) == state) {
      keep(*Loop::ElementOf(*i));
      continue;
    }
    for (const Instruction* operand : i->operands()) need(operand);
  }
  std::vector<std::size_t> out;
  for (std::size_t n = 0; n < live.size(); ++n)
    if (live[n]) out.push_back(n);
  return out;
}

}  // namespace

Result<bool> WhileSimplifier(Module& module, const PassOptions&) {
  SideEffects effects;
  return RewriteLoops(module, effects, [&](Instruction* i, std::vector<Instruction*>& gone) -> Result<bool> {
    bool changed = i->IsRoot() && EndInTuple(*i->parent());
    if (i->called(1)->root()->opcode() != Opcode::kParameter) changed |= EndInTuple(*i->called(1));
    auto loop = Loop::Of(i);
    if (!loop) return changed;
    if (BypassInvariants(*loop)) {
      changed = true;
      RemoveDead(loop->body(), effects);
      RemoveDead(loop->condition(), effects);
    }
    if (!loop->ResultTakenApart()) return changed;
    std::vector<std::size_t> live = LiveElements(*loop, effects);
    if (live.size() == loop->size() || live.empty()) return changed;
    std::vector<Instruction*> old = loop->Rebuild(live, {}).gone;
    gone.insert(gone.end(), old.begin(), old.end());
    KRAFLA_TRY(loop->body().SortTopologically());
    KRAFLA_TRY(loop->condition().SortTopologically());
    return true;
  });
}

}  // namespace krafla
