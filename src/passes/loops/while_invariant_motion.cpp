// SPDX-License-Identifier: Apache-2.0
// Moves what a loop's body computes alike every turn to before the loop, as a new element of the state that the body
// passes on. What only repeats or renumbers elements stays: it costs less than the memory it would take (XLA:
// while_loop_invariant_code_motion.cc).
#include <algorithm>

#include "passes/loops/loop.h"
#include "passes/passes.h"

namespace krafla {

namespace {

// Larger than what it is computed from, a result moves only up to this size.
constexpr int64_t kSmallBytes = int64_t{1} << 16;

bool IsCheap(const Instruction& i) {
  Opcode op = i.opcode();
  return op == Opcode::kConstant || op == Opcode::kIota || op == Opcode::kBroadcast || op == Opcode::kReshape ||
         op == Opcode::kTranspose || op == Opcode::kSlice || op == Opcode::kReverse || op == Opcode::kTuple ||
         op == Opcode::kGetTupleElement;
}

class Mover {
 public:
  Mover(Loop& loop, SideEffects& effects) : loop_(loop) {
    for (const auto& i : loop.body().instructions())
      if (IsInvariant(*i, effects)) invariant_.insert(i.get());
  }

  // Whether anything moved. What must be removed from the loop's computation goes to `gone`.
  bool Run(std::vector<Instruction*>& gone) {
    std::vector<Instruction*> moved, work;
    std::unordered_set<const Instruction*> seen;
    auto need = [&](Instruction* i) {
      if (invariant_.contains(i) && seen.insert(i).second) work.push_back(i);
    };
    for (const auto& i : loop_.body().instructions()) {
      if (invariant_.contains(i.get())) continue;
      for (Instruction* operand : i->operands()) need(operand);
    }
    while (!work.empty()) {
      Instruction* i = work.back();
      work.pop_back();
      if (Pays(*i)) {
        moved.push_back(i);
        continue;
      }
      for (Instruction* operand : i->operands()) need(operand);
    }
    // In the order of the body, not of the search.
    std::ranges::sort(moved, {}, &Instruction::id);
    if (moved.empty()) return false;
    std::vector<Instruction*> outside = CopyOutside(moved);
    std::vector<std::size_t> all;
    for (std::size_t n = 0; n < loop_.size(); ++n) all.push_back(n);
    // The uses must leave the body's instructions before Rebuild cleans up.
    Loop::Rebuilt rebuilt = loop_.Rebuild(all, outside);
    for (std::size_t n = 0; n < moved.size(); ++n) Replace(moved[n], rebuilt.added[n]);
    gone.insert(gone.end(), rebuilt.gone.begin(), rebuilt.gone.end());
    return true;
  }

 private:
  bool IsInvariant(const Instruction& i, SideEffects& effects) {
    if (i.opcode() == Opcode::kConstant || i.opcode() == Opcode::kIota) return true;
    if (auto n = Loop::ElementOf(i)) return loop_.IsInvariant(*n);
    if (i.operand_count() == 0 || !i.shape().IsArray() || !IsStatic(i)) return false;
    if (HasTrait(i.opcode(), op_trait::kCollective | op_trait::kControl) || i.opcode() == Opcode::kCustomCall)
      return false;
    if (effects.Has(i) || !i.control_predecessors().empty()) return false;
    for (const Instruction* operand : i.operands())
      if (!invariant_.contains(operand)) return false;
    return true;
  }

  bool Pays(const Instruction& i) const {
    if (IsCheap(i) || i.IsRoot() || IsMadeOfIndices(i)) return false;
    int64_t bytes = 0;
    for (const Instruction* operand : i.operands()) bytes += operand->shape().byte_size();
    return i.shape().byte_size() <= std::max(bytes, kSmallBytes);
  }

  // `wanted`, and what they are computed from, as instructions before the loop.
  std::vector<Instruction*> CopyOutside(const std::vector<Instruction*>& wanted) {
    std::unordered_set<const Instruction*> needed(wanted.begin(), wanted.end());
    std::vector<const Instruction*> work(wanted.begin(), wanted.end());
    while (!work.empty()) {
      const Instruction* i = work.back();
      work.pop_back();
      if (Loop::ElementOf(*i)) continue;
      for (const Instruction* operand : i->operands())
        if (needed.insert(operand).second) work.push_back(operand);
    }
    Rewriter rewrite(*loop_.instruction());
    std::unordered_map<const Instruction*, Instruction*> copies;
    for (const auto& i : loop_.body().instructions()) {
      if (!needed.contains(i.get())) continue;
      if (auto n = Loop::ElementOf(*i)) {
        copies[i.get()] = rewrite.Element(loop_.instruction()->operand(0), static_cast<int64_t>(*n));
        continue;
      }
      std::vector<Instruction*> operands;
      for (const Instruction* operand : i->operands()) operands.push_back(copies.at(operand));
      copies[i.get()] = loop_.instruction()->parent()->AddClone(*i, std::move(operands));
    }
    std::vector<Instruction*> out;
    for (const Instruction* i : wanted) out.push_back(copies.at(i));
    return out;
  }

  Loop& loop_;
  std::unordered_set<const Instruction*> invariant_;
};

}  // namespace

// What leaves an inner loop may leave the next.
Result<bool> WhileInvariantMotion(Module& module, const PassOptions&) {
  SideEffects effects;
  return RewriteLoops(module, effects, [&](Instruction* i, std::vector<Instruction*>& gone) -> Result<bool> {
    auto loop = Loop::Of(i);
    if (!loop || !loop->ResultTakenApart()) return false;
    KRAFLA_TRY(loop->body().SortTopologically());
    if (!Mover(*loop, effects).Run(gone)) return false;
    RemoveDead(loop->body(), effects);
    KRAFLA_TRY(loop->body().SortTopologically());
    return true;
  });
}

}  // namespace krafla
