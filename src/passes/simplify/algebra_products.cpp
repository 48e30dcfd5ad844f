// SPDX-License-Identifier: Apache-2.0
#include "ir/dims.h"
#include "passes/rewrite.h"
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
  int64_t free_at = a.lhs_batch.ssize();  // where a side's own dimensions begin in the result
  const auto over_result = [&](Instruction* side, const Dims& batch) {
    Dims mapping(static_cast<std::size_t>(side->shape().rank()), 0);
    int64_t at = 0;
    for (int64_t d : batch) mapping[static_cast<std::size_t>(d)] = at++;
    for (int64_t d = 0; d < side->shape().rank(); ++d)
      if (!Contains(batch, d)) mapping[static_cast<std::size_t>(d)] = free_at++;
    return rewrite.Broadcast(side, i->shape().dims(), mapping);
  };
  Instruction* left = over_result(x, a.lhs_batch);
  return rewrite.Binary(Opcode::kMultiply, left, over_result(y, a.rhs_batch));
}

}  // namespace krafla
