// SPDX-License-Identifier: Apache-2.0
#include "passes/dot_sides.h"
#include "passes/simplify/algebra.h"

namespace krafla {

// Where nothing is contracted and one side is a number for each index of the batch, as a mask of attention's heads is,
// the other one is multiplied by it element by element. XLA multiplies too: the sign of a zero stays.
Instruction* SimplifyProduct(Instruction* i) {
  if (i->opcode() != Opcode::kDot) return nullptr;
  const DotAttributes& a = i->attr<DotAttributes>();
  Instruction *x = i->operand(0), *y = i->operand(1);
  const ElementType type = i->shape().element_type();
  if (!a.lhs_contracting.empty() || !a.algorithm.empty() || type == ElementType::kPred ||
      x->shape().element_type() != type || y->shape().element_type() != type || !IsStatic(*i) || !IsStatic(*x) ||
      !IsStatic(*y))
    return nullptr;
  int64_t batches = 1;
  for (int64_t d : a.lhs_batch) batches *= x->shape().dim(d);
  if (x->shape().element_count() != batches && y->shape().element_count() != batches) return nullptr;

  Rewriter rewrite(*i);
  const Dims& all = i->shape().dims();
  Instruction* left = OverProducts(rewrite, x, a.lhs_batch, all, a.lhs_batch.ssize());
  return rewrite.Binary(Opcode::kMultiply, left, OverProducts(rewrite, y, a.rhs_batch, all, x->shape().rank()));
}

}  // namespace krafla
