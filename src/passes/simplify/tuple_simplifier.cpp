// SPDX-License-Identifier: Apache-2.0
// get-tuple-element(tuple(a, b), i) is the element; tuple(gte(t, 0), gte(t, 1), ...) of all elements is t; a tuple
// constant is a tuple of constants.
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {

namespace {

Instruction* SimplifyTuple(Instruction* i) {
  if (i->opcode() == Opcode::kGetTupleElement) {
    Instruction* tuple = i->operand(0);
    if (tuple->opcode() != Opcode::kTuple) return nullptr;
    return tuple->operand(static_cast<std::size_t>(i->attr<TupleIndexAttributes>().index));
  }
  if (i->opcode() == Opcode::kConstant && i->shape().IsTuple()) {
    Rewriter rewrite(*i);
    std::vector<Instruction*> elements;
    for (const Literal& e : i->literal().elements()) elements.push_back(rewrite.Constant(e));
    return rewrite.Tuple(std::move(elements));
  }
  // A root stays: while_simplifier tells its elements apart.
  if (i->opcode() == Opcode::kTuple && i->operand_count() > 0 && !i->IsRoot()) {
    Instruction* whole = nullptr;
    for (std::size_t n = 0; n < i->operand_count(); ++n) {
      const Instruction* e = i->operand(n);
      if (e->opcode() != Opcode::kGetTupleElement || e->attr<TupleIndexAttributes>().index != static_cast<int64_t>(n) ||
          (whole != nullptr && e->operand(0) != whole))
        return nullptr;
      whole = e->operand(0);
    }
    return whole->shape().tuple_elements().size() == i->operand_count() ? whole : nullptr;
  }
  return nullptr;
}

}  // namespace

Result<bool> TupleSimplifier(Module& module, const PassOptions&) { return SweepModule(module, SimplifyTuple); }

}  // namespace krafla
