// SPDX-License-Identifier: Apache-2.0
// Identities of elementwise operations. Every rule keeps the result to the bit, NaN as NaN: floats are never
// re-associated, x + 0 stays where x may be -0, conversions merge only where the middle one rounds nothing. The two
// exceptions are powers with exponent 2 and -1, which become the multiplication and division that are exact where the
// formula for power is within one unit in the last place, and those with exponent 1/2, 3/2 and 3, which become roots
// and products that are within one, too (and the same as XLA:CPU's but for 3/2).
#include "passes/simplify/algebra.h"

#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {

namespace {

bool DiffersInOnesOnly(const Dims& a, const Dims& b) {
  auto is_one = [](int64_t d) { return d == 1; };
  Dims x = a, y = b;
  x.resize(static_cast<std::size_t>(std::remove_if(x.begin(), x.end(), is_one) - x.begin()));
  y.resize(static_cast<std::size_t>(std::remove_if(y.begin(), y.end(), is_one) - y.begin()));
  return x == y;
}

// Elementwise instructions move before a view that all their operands share: a broadcast along the same dimensions,
// where there are fewer elements to work on, or a reshape that adds or drops dimensions of size 1, so that what
// stands between a reduction and the broadcast of its result has the reduction's shape.
Instruction* HoistView(Instruction* i) {
  if (!IsElementwise(i->opcode()) || i->operand_count() == 0 || i->shape().rank() == 0) return nullptr;
  const Instruction* view = nullptr;
  for (const Instruction* x : i->operands()) {
    if ((x->opcode() != Opcode::kBroadcast && x->opcode() != Opcode::kReshape) || !IsStatic(*x)) return nullptr;
    if (!Shape::SameDims(x->shape(), i->shape())) return nullptr;
    const Shape& inner = x->operand(0)->shape();
    if (inner.rank() == 0) continue;
    if (x->opcode() == Opcode::kReshape && !DiffersInOnesOnly(inner.dims(), x->shape().dims())) return nullptr;
    if (view == nullptr) view = x;
    else if (view->opcode() != x->opcode() || view->attributes() != x->attributes() ||
             !Shape::SameDims(view->operand(0)->shape(), inner))
      return nullptr;
  }
  Dims dims;
  if (view != nullptr) dims = view->operand(0)->shape().dims();
  Rewriter rewrite(*i);
  std::vector<Instruction*> operands;
  for (Instruction* x : i->operands()) {
    Instruction* inner = x->operand(0);
    operands.push_back(inner->shape().rank() == static_cast<int64_t>(dims.size()) ? inner
                                                                                  : rewrite.Broadcast(inner, dims, {}));
  }
  Instruction* small =
      rewrite.Add(i->opcode(), ArrayShape(i->shape().element_type(), dims), std::move(operands), i->attributes());
  if (view != nullptr && view->opcode() == Opcode::kReshape) return rewrite.Reshape(small, i->shape().dims());
  Dims mapping;
  if (view != nullptr) mapping = view->attr<DimensionsAttributes>().dimensions;
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

Instruction* SimplifyAlgebra(Instruction* i) {
  if (!i->shape().IsArray() || i->shape().element_count() == 0) return nullptr;
  if (Instruction* with = WidenScalars(i)) return with;
  if (Instruction* with = SimplifyArithmetic(i)) return with;
  if (Instruction* with = SimplifyLogic(i)) return with;
  if (Instruction* with = SimplifyConversion(i)) return with;
  if (Instruction* with = SimplifyProduct(i)) return with;
  return HoistView(i);
}

}  // namespace

Result<bool> AlgebraicSimplifier(Module& module, const PassOptions&) { return SweepModule(module, SimplifyAlgebra); }

}  // namespace krafla
