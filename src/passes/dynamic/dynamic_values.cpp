// SPDX-License-Identifier: Apache-2.0
#include "passes/dynamic/dynamic_values.h"

#include <algorithm>

#include "base/index.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

const Shape& SizeShape() {
  static const auto* const kShape = new Shape(Shape::MakeScalar(ElementType::kS32));
  return *kShape;
}

int64_t DynamicDimensions(const Shape& shape) {
  int64_t out = 0;
  for (const Shape* leaf : TupleLeaves(shape))
    for (int64_t d = 0; d < leaf->rank(); ++d) out += leaf->IsDynamicDim(d);
  return out;
}

bool BoundedValue::IsSized() const {
  for (const DimensionSizes& leaf : leaves)
    for (const Instruction* s : leaf)
      if (s != nullptr) return true;
  return false;
}

Instruction* BoundedValue::size(int64_t dim) const {
  return leaves.size() == 1 && At(dim) < leaves[0].size() ? leaves[0][At(dim)] : nullptr;
}

Instruction* SizeScalars::Clamped(Rewriter& rewrite, Instruction* size, int64_t bound) {
  if (size->IsConstant()) {
    int64_t n = std::clamp<int64_t>(ScalarInt(size->literal()), 0, bound);
    return n == bound ? nullptr : rewrite.Constant(ScalarOfInt(ElementType::kS32, n));
  }
  auto known = within_.find(size);
  if (known != within_.end() && known->second <= bound) return size;
  Instruction*& out = clamped_[{size, bound}];
  if (out == nullptr) {
    Instruction* low = rewrite.Constant(ScalarOfInt(ElementType::kS32, 0));
    Instruction* high = rewrite.Constant(ScalarOfInt(ElementType::kS32, bound));
    out = rewrite.Add(Opcode::kClamp, SizeShape(), {low, size, high});
    within_[out] = bound;
  }
  return out;
}

Instruction* SizeScalars::Smaller(Rewriter& rewrite, Instruction* a, Instruction* b) {
  Instruction*& out = smaller_[{a, b}];
  if (out == nullptr) out = rewrite.Binary(Opcode::kMinimum, a, b);
  return out;
}

Instruction* DynamicOp::Number(int64_t value) { return rewrite_.Constant(ScalarOfInt(ElementType::kS32, value)); }

Instruction* DynamicOp::Add(Instruction* a, int64_t b) {
  return b == 0 ? a : rewrite_.Binary(Opcode::kAdd, a, Number(b));
}

Instruction* DynamicOp::SizeOr(const BoundedValue& x, int64_t dim) {
  Instruction* s = x.size(dim);
  return s != nullptr ? s : Number(x.value->shape().dim(dim));
}

Instruction* DynamicOp::Merge(Instruction* a, Instruction* b) {
  if (a == nullptr || a == b) return b;
  if (b == nullptr) return a;
  return sizes_.Smaller(rewrite_, a, b);
}

Instruction* DynamicOp::Mask(std::span<const int64_t> dims, const DimensionSizes& sizes) {
  Instruction* out = nullptr;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == nullptr) continue;
    Instruction* at =
        rewrite_.Add(Opcode::kIota, ArrayShape(ElementType::kS32, dims), {}, IotaAttributes{static_cast<int64_t>(d)});
    Instruction* below = rewrite_.Compare(ComparisonDirection::kLt, at, rewrite_.Broadcast(sizes[d], dims, {}));
    out = out == nullptr ? below : rewrite_.Binary(Opcode::kAnd, out, below);
  }
  return out;
}

Instruction* DynamicOp::Masked(Instruction* x, const DimensionSizes& sizes, Instruction* fill) {
  Instruction* mask = Mask(x->shape().dims(), sizes);
  if (mask == nullptr) return x;
  return rewrite_.Select(mask, x, rewrite_.Broadcast(fill, x->shape().dims(), {}));
}

DimensionSizes DynamicOp::SizesIn(const BoundedValue& x, std::span<const int64_t> dims) const {
  DimensionSizes out(At(x.value->shape().rank()), nullptr);
  for (int64_t d : dims) out[At(d)] = x.size(d);
  return out;
}

std::vector<Instruction*> DynamicOp::Values() const {
  std::vector<Instruction*> out;
  for (const BoundedValue* o : operands_) out.push_back(o->value);
  return out;
}

BoundedValue DynamicOp::Same(const DimensionSizes& sizes) { return SameOn(Values(), sizes); }

BoundedValue DynamicOp::SameOn(std::vector<Instruction*> values, const DimensionSizes& sizes) {
  Instruction* made = instruction_.parent()->AddClone(instruction_, std::move(values));
  Shape shape = instruction_.shape().WithStaticDims();
  shape.ClearLayout();
  made->set_shape(std::move(shape));
  BoundedValue out;
  out.value = made;
  for (const Shape* leaf : TupleLeaves(made->shape())) out.leaves.push_back(leaf->IsArray() ? sizes : DimensionSizes{});
  return out;
}

Lowered LowerDynamicElementwise(DynamicOp& op) {
  const Shape& shape = op.shape();
  DimensionSizes sizes(At(shape.rank()), nullptr);
  // A bitcast between widths has one dimension more or less at the end.
  const bool widths_differ =
      op.instruction().opcode() == Opcode::kBitcastConvert && op.value(0)->shape().rank() != shape.rank();
  for (std::size_t n = 0; n < op.operand_count(); ++n) {
    const BoundedValue& x = op.operand(n);
    const int64_t rank = x.value->shape().rank();
    if (rank != shape.rank() && !widths_differ) continue;
    if (rank > shape.rank() && x.IsSized(rank - 1)) return std::nullopt;
    for (int64_t d = 0; d < std::min(rank, shape.rank()); ++d) sizes[At(d)] = op.Merge(sizes[At(d)], x.size(d));
  }
  return op.Same(std::move(sizes));
}

}  // namespace krafla
