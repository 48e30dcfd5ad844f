// SPDX-License-Identifier: Apache-2.0
// A conditional whose choice is known is its branch. One with small branches of plain arithmetic runs them all and
// selects: the device then need not stop to ask which branch to take.
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

constexpr std::size_t kSmallInstructions = 48;
constexpr int64_t kSmallElements = int64_t{1} << 16;

// Cheap and without effects. A division by zero or an index out of range has a value like any other.
bool IsPlain(const Instruction& i) {
  Opcode op = i.opcode();
  if (!i.called().empty() || HasTrait(op, op_trait::kSideEffect | op_trait::kCollective)) return false;
  if (op == Opcode::kParameter || op == Opcode::kConstant || op == Opcode::kTuple || op == Opcode::kGetTupleElement)
    return true;
  return i.shape().IsArray() && IsStatic(i) && (IsElementwise(op) || HasTrait(op, op_trait::kDataMovement));
}

bool MayRunAll(const Instruction& conditional) {
  const Shape& result = conditional.shape();
  if (!result.IsArray() && !result.IsTuple()) return false;
  for (const Shape& e : result.tuple_elements())
    if (!e.IsArray()) return false;
  if (result.IsDynamic()) return false;
  std::size_t instructions = 0;
  int64_t elements = 0;
  for (const Computation* branch : conditional.called()) {
    for (const auto& i : branch->instructions()) {
      if (!IsPlain(*i)) return false;
      // What the branch is given or takes apart costs nothing.
      if (i->opcode() == Opcode::kParameter || !i->shape().IsArray() || i->opcode() == Opcode::kGetTupleElement)
        continue;
      ++instructions;
      elements += i->shape().element_count();
    }
  }
  return instructions <= kSmallInstructions && elements <= kSmallElements;
}

Result<Instruction*> InlineBranch(Instruction* conditional, std::size_t n) {
  KRAFLA_TRY(conditional->called(n)->SortTopologically());
  Instruction* argument = conditional->operand(n + 1);
  return InlineInto(*conditional->parent(), *conditional->called(n), {&argument, 1});
}

// Branch `n` is taken; for an index the last branch takes all that is out of range.
Result<Instruction*> IsChosen(Rewriter& rewrite, Instruction* conditional, std::size_t n) {
  Instruction* index = conditional->operand(0);
  if (index->shape().element_type() == ElementType::kPred) return index;
  Instruction* number = rewrite.Constant(ScalarOfInt(index->shape().element_type(), static_cast<int64_t>(n)));
  return rewrite.Compare(ComparisonDirection::kEq, index, number);
}

Result<Instruction*> SelectBranches(Instruction* conditional) {
  Rewriter rewrite(*conditional);
  std::size_t count = conditional->called().size();
  KRAFLA_ASSIGN(Instruction * result, InlineBranch(conditional, count - 1));
  for (std::size_t n = count - 1; n-- > 0;) {
    KRAFLA_ASSIGN(Instruction * branch, InlineBranch(conditional, n));
    KRAFLA_ASSIGN(Instruction * chosen, IsChosen(rewrite, conditional, n));
    auto choose = [&](Instruction* a, Instruction* b) {
      return rewrite.Select(rewrite.Broadcast(chosen, a->shape().dims(), {}), a, b);
    };
    if (!conditional->shape().IsTuple()) {
      result = choose(branch, result);
      continue;
    }
    std::vector<Instruction*> elements;
    for (std::size_t e = 0; e < conditional->shape().tuple_elements().size(); ++e) {
      auto index = static_cast<int64_t>(e);
      elements.push_back(choose(rewrite.Element(branch, index), rewrite.Element(result, index)));
    }
    result = rewrite.Tuple(std::move(elements));
  }
  return result;
}

Result<Instruction*> SimplifyConditional(Instruction* i, SideEffects& effects) {
  std::size_t count = i->called().size();
  const Literal* known = SplatOf(i->operand(0));
  std::optional<std::size_t> taken;
  if (known != nullptr && known->shape().element_type() == ElementType::kPred) {
    taken = IsPositiveZero(*known) ? 1 : 0;
  } else if (known != nullptr) {
    int64_t index = ScalarInt(*known);
    taken = index < 0 || index >= static_cast<int64_t>(count) ? count - 1 : static_cast<std::size_t>(index);
  } else if (count == 1) {
    taken = 0;
  }
  // The copy would come to stand after what follows the conditional; with side effects that matters.
  if (taken && !effects.Has(*i->called(*taken))) return InlineBranch(i, *taken);
  if (taken || !MayRunAll(*i)) return nullptr;
  return SelectBranches(i);
}

}  // namespace

Result<bool> ConditionalSimplifier(Module& module, const PassOptions&) {
  SideEffects effects;
  return RewriteAll(module, Opcode::kConditional, [&](Instruction* i) { return SimplifyConditional(i, effects); });
}

}  // namespace krafla
