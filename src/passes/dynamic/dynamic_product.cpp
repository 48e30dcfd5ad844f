// SPDX-License-Identifier: Apache-2.0
// ragged-dot and scaled-dot of arrays of bounded dynamic shape: what is contracted is masked on both sides, as for dot,
// and so are the numbers that say how large groups are and what blocks are scaled by.
#include <algorithm>

#include "base/index.h"
#include "ir/dims.h"
#include "passes/dynamic/dynamic_values.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

struct ProductSizes {
  DimensionSizes lhs, rhs;  // of the contracted dimensions only
  DimensionSizes result;    // batch, free of the left, free of the right
};

// `skipped`: a free dimension of the right that the result does not have, or -1.
ProductSizes SizesOf(DynamicOp& op, const DotAttributes& a, int64_t skipped) {
  const BoundedValue &lhs = op.operand(0), &rhs = op.operand(1);
  ProductSizes out{op.SizesIn(lhs, {}), op.SizesIn(rhs, {}), {}};
  for (std::size_t c = 0; c < a.lhs_contracting.size(); ++c) {
    Instruction* n = op.Merge(lhs.size(a.lhs_contracting[c]), rhs.size(a.rhs_contracting[c]));
    out.lhs[At(a.lhs_contracting[c])] = n;
    out.rhs[At(a.rhs_contracting[c])] = n;
  }
  for (std::size_t b = 0; b < a.lhs_batch.size(); ++b)
    out.result.push_back(op.Merge(lhs.size(a.lhs_batch[b]), rhs.size(a.rhs_batch[b])));
  for (int64_t d : FreeDims(lhs.value->shape().rank(), a.lhs_contracting, a.lhs_batch))
    out.result.push_back(lhs.size(d));
  for (int64_t d : FreeDims(rhs.value->shape().rank(), a.rhs_contracting, a.rhs_batch))
    if (d != skipped) out.result.push_back(rhs.size(d));
  return out;
}

// Both sides: what does not count may be infinite or NaN.
Instruction* WithZeros(DynamicOp& op, const BoundedValue& x, const DimensionSizes& sizes) {
  return op.Masked(x.value, sizes, op.rewrite().Constant(ScalarZero(x.value->shape().element_type())));
}

// A group that does not count is empty.
Lowered RaggedDot(DynamicOp& op) {
  const auto& a = op.attr<RaggedDotAttributes>();
  const BoundedValue& groups = op.operand(2);
  const int64_t ragged = a.lhs_ragged_dims[0], last = groups.value->shape().rank() - 1;
  const int64_t group_dim = a.rhs_group_dims.empty() ? -1 : a.rhs_group_dims[0];
  ProductSizes sides = SizesOf(op, a.dot, group_dim);
  DimensionSizes counts = op.SizesIn(groups, {});
  counts[At(last)] = groups.size(last);
  if (group_dim >= 0) counts[At(last)] = op.Merge(counts[At(last)], op.operand(1).size(group_dim));
  if (Contains(a.dot.lhs_contracting, ragged)) sides.result.insert(sides.result.begin(), counts[At(last)]);
  Instruction* lhs = WithZeros(op, op.operand(0), sides.lhs);
  Instruction* rhs = WithZeros(op, op.operand(1), sides.rhs);
  return op.SameOn({lhs, rhs, WithZeros(op, groups, counts)}, std::move(sides.result));
}

// The scale of every element of `x`, a scale a block. How long a block is depends on both sizes.
Result<Instruction*> ScaleOfEach(DynamicOp& op, const BoundedValue& x, const BoundedValue& scale) {
  Rewriter& rewrite = op.rewrite();
  Instruction* out = scale.value;
  for (int64_t d = 0; d < out->shape().rank(); ++d) {
    const Dims& dims = x.value->shape().dims();
    if ((!x.IsSized(d) && !scale.IsSized(d)) || (out->shape().dim(d) == 1 && !scale.IsSized(d))) continue;
    Instruction* one = op.Number(1);
    Instruction* scales = op.Scalar(Opcode::kMaximum, op.SizeOr(scale, d), one);
    Instruction* block = op.Scalar(Opcode::kDivide, op.SizeOr(x, d), scales);
    block = op.Scalar(Opcode::kMaximum, block, one);
    const Dims along = {dims[At(d)]};
    Instruction* at = rewrite.Add(Opcode::kIota, ArrayShape(ElementType::kS32, along), {}, IotaAttributes{0});
    Instruction* which = rewrite.Binary(Opcode::kDivide, at, rewrite.Broadcast(block, along, {}));
    KRAFLA_ASSIGN(out, TakeAlong(op, out, d, which));
  }
  return out;
}

Lowered ScaledDot(DynamicOp& op) {
  const auto& a = op.attr<DotAttributes>();
  // f8e8m0fnu has no zero.
  for (std::size_t n = 0; n < 4; ++n)
    if (op.value(n)->shape().element_count() == 0 ||
        (n < 2 && op.value(n)->shape().element_type() == ElementType::kF8E8M0FNU))
      return std::nullopt;
  ProductSizes sides = SizesOf(op, a, -1);
  std::vector<Instruction*> values = {WithZeros(op, op.operand(0), sides.lhs), WithZeros(op, op.operand(1), sides.rhs)};
  for (std::size_t n = 0; n < 2; ++n) {
    Instruction* scale = op.value(n + 2);
    if (scale->shape().rank() > 0) {
      KRAFLA_ASSIGN(scale, ScaleOfEach(op, op.operand(n), op.operand(n + 2)));
      // Zero times a scale that does not count must be zero.
      DimensionSizes masked = n == 0 ? sides.lhs : sides.rhs;
      for (std::size_t d = 0; d < masked.size(); ++d)
        if (scale->shape().dims()[d] != op.value(n)->shape().dims()[d]) masked[d] = nullptr;
      scale = op.Masked(scale, masked, op.rewrite().Constant(ScalarOne(scale->shape().element_type())));
    }
    values.push_back(scale);
  }
  return op.SameOn(std::move(values), std::move(sides.result));
}

}  // namespace

Lowered LowerDynamicProduct(DynamicOp& op) {
  const Opcode opcode = op.instruction().opcode();
  if (opcode == Opcode::kRaggedDot) return RaggedDot(op);
  if (opcode == Opcode::kScaledDot) return ScaledDot(op);
  return std::nullopt;
}

}  // namespace krafla
