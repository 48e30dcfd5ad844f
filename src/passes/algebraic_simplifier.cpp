// SPDX-License-Identifier: Apache-2.0
// Identities of elementwise operations. Every rule keeps the result to the bit, NaN as NaN: floats are never
// re-associated, x + 0 stays where x may be -0, conversions merge only where the middle one rounds nothing. The two
// exceptions are powers with exponent 2 and -1, which become the multiplication and division that are exact where the
// formula for power is within one unit in the last place.
#include "passes/algebra.h"

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {

namespace {

// Operands of one elementwise instruction that all repeat along the same dimensions: the instruction moves before
// the broadcast, where it has fewer elements to work on.
Instruction* HoistBroadcast(Instruction* i) {
  if (!IsElementwise(i->opcode()) || i->operand_count() == 0 || i->shape().rank() == 0) return nullptr;
  const Instruction* pattern = nullptr;
  for (const Instruction* x : i->operands()) {
    if (x->opcode() != Opcode::kBroadcast || !Shape::SameDims(x->shape(), i->shape()) || !IsStatic(*x)) return nullptr;
    if (x->operand(0)->shape().rank() == 0) continue;
    if (pattern == nullptr) {
      pattern = x;
    } else if (pattern->attributes() != x->attributes() ||
               !Shape::SameDims(pattern->operand(0)->shape(), x->operand(0)->shape())) {
      return nullptr;
    }
  }
  Dims dims, mapping;
  if (pattern != nullptr) {
    dims = pattern->operand(0)->shape().dims();
    mapping = pattern->attr<DimensionsAttributes>().dimensions;
  }
  Rewriter rewrite(*i);
  std::vector<Instruction*> operands;
  for (Instruction* x : i->operands()) {
    Instruction* inner = x->operand(0);
    operands.push_back(inner->shape().rank() == static_cast<int64_t>(dims.size()) ? inner
                                                                                  : rewrite.Broadcast(inner, dims, {}));
  }
  Instruction* small = rewrite.Add(i->opcode(), ArrayShape(i->shape().element_type(), dims), std::move(operands),
                                   i->attributes());
  return rewrite.Broadcast(small, i->shape().dims(), mapping);
}

// select and clamp may have scalars where the others are arrays.
Instruction* WidenScalars(Instruction* i) {
  if (i->opcode() != Opcode::kSelect && i->opcode() != Opcode::kClamp) return nullptr;
  if (i->shape().rank() == 0) return nullptr;
  std::vector<Instruction*> operands(i->operands().begin(), i->operands().end());
  Rewriter rewrite(*i);
  bool changed = false;
  for (Instruction*& x : operands) {
    if (x->shape().rank() != 0) continue;
    x = rewrite.Broadcast(x, i->shape().dims(), {});
    changed = true;
  }
  return changed ? rewrite.Add(i->opcode(), i->shape(), std::move(operands)) : nullptr;
}

Instruction* Simplify(Instruction* i) {
  if (!i->shape().IsArray() || i->shape().element_count() == 0) return nullptr;
  if (Instruction* with = WidenScalars(i)) return with;
  if (Instruction* with = SimplifyArithmetic(i)) return with;
  if (Instruction* with = SimplifyLogic(i)) return with;
  if (Instruction* with = SimplifyConversion(i)) return with;
  return HoistBroadcast(i);
}

}  // namespace

Result<bool> AlgebraicSimplifier(Module& module, const PassOptions&) { return SweepModule(module, Simplify); }

}  // namespace krafla
