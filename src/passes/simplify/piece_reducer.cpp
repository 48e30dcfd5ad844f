// SPDX-License-Identifier: Apache-2.0
// A reduction of a few arrays along the dimension that a concatenate put them side by side in (the maximum of a stack,
// the first true one of jnp.select's conditions) combines the arrays, one after the other.
#include <algorithm>

#include "passes/lift.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {

namespace {

constexpr int64_t kMostCombined = 8;

Result<Instruction*> CombinePieces(Instruction* i) {
  const Dims& reduced = i->attr<DimensionsAttributes>().dimensions;
  if (!IsStatic(*i) || reduced.size() != 1) return nullptr;
  const std::size_t arrays = i->operand_count() / 2;
  const int64_t dim = reduced[0];
  const Shape& shape = i->operand(0)->shape();
  const int64_t length = shape.dims()[static_cast<std::size_t>(dim)];
  if (length == 0 || length > kMostCombined || shape.element_count() == 0) return nullptr;
  const auto is_stack = [&](const Instruction* x) {
    return x->opcode() == Opcode::kConcatenate && x->attr<DimensionsAttributes>().dimensions[0] == dim &&
           x->users().size() == 1 && static_cast<int64_t>(x->operand_count()) == length;
  };
  if (std::none_of(i->operands().begin(), i->operands().begin() + static_cast<std::ptrdiff_t>(arrays), is_stack))
    return nullptr;
  // Sums and products of narrow floats are rounded once, at their end.
  for (std::size_t n = 0; n < arrays; ++n)
    if (const ElementType t = i->operand(n)->shape().element_type(); IsFloat(t) && BitWidth(t) < 32) return nullptr;
  KRAFLA_TRY(i->called(0)->SortTopologically());
  Rewriter rewrite(*i);
  Dims dims;
  for (int64_t d = 0; d < shape.rank(); ++d)
    if (d != dim) dims.push_back(shape.dims()[static_cast<std::size_t>(d)]);
  std::vector<Instruction*> so_far;
  for (std::size_t n = 0; n < arrays; ++n) so_far.push_back(rewrite.Broadcast(i->operand(arrays + n), dims, {}));
  SliceAttributes cut;
  cut.starts = Dims(static_cast<std::size_t>(shape.rank()), 0);
  cut.strides = Dims(static_cast<std::size_t>(shape.rank()), 1);
  cut.limits = shape.dims();
  for (int64_t k = 0; k < length; ++k) {
    cut.starts[static_cast<std::size_t>(dim)] = k, cut.limits[static_cast<std::size_t>(dim)] = k + 1;
    std::vector<Instruction*> arguments = so_far;
    for (std::size_t n = 0; n < arrays; ++n)
      arguments.push_back(rewrite.Reshape(rewrite.Slice(i->operand(n), cut), dims.span()));
    so_far = LiftResultsInto(rewrite, *i->called(0), arguments, dims);
    if (so_far.size() != arrays) return nullptr;
  }
  return i->shape().IsTuple() ? rewrite.Tuple(std::move(so_far)) : so_far[0];
}

}  // namespace

Result<bool> PieceReducer(Module& module, const PassOptions&) {
  return RewriteAll(module, Opcode::kReduce, CombinePieces);
}

}  // namespace krafla
