// SPDX-License-Identifier: Apache-2.0
// ragged-dot as dots and masks (XLA: ragged_dot_rewriter.cc). The ragged dimension of the left side falls into groups:
//   free:        every row meets every group's matrix, and a mask picks the right product. Masking the result, not the
//                operand, keeps an infinity in one group's matrix from the rows of another.
//   contracting: one dot a group, of both sides masked to the group.
//   batch:       an ordinary dot.
#include <algorithm>

#include "ir/builder.h"
#include "ir/dims.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

int64_t PositionOf(const Dims& dims, int64_t d) { return std::ranges::find(dims, d) - dims.begin(); }

class RaggedDotParts {
 public:
  explicit RaggedDotParts(Instruction* i)
      : i_(i),
        rewrite_(*i),
        a_(i->attr<RaggedDotAttributes>().dot),
        lhs_(i->operand(0)),
        rhs_(i->operand(1)),
        ragged_(i->attr<RaggedDotAttributes>().lhs_ragged_dims[0]) {
    const Shape& sizes = i->operand(2)->shape();
    groups_ = sizes.dim(sizes.rank() - 1);
    rows_ = lhs_->shape().dim(ragged_);
  }

  Result<Instruction*> Run() {
    if (Contains(a_.lhs_batch, ragged_)) return rewrite_.Add(Opcode::kDot, i_->shape(), {lhs_, rhs_}, a_);
    if (groups_ == 0 || rows_ == 0 || i_->shape().element_count() == 0)
      return rewrite_.Splat(ScalarZero(i_->shape().element_type()), i_->shape().dims());
    KRAFLA_ASSIGN(Instruction * mask, Mask());
    return Contains(a_.lhs_contracting, ragged_) ? Contracting(mask) : Free(mask);
  }

 private:
  // [leading..., row, group]: whether the row is of the group. The leading dimensions of the group sizes, if any, are
  // listed by Leading().
  Result<Instruction*> Mask() {
    Instruction* sizes = i_->operand(2);
    ElementType type = sizes->shape().element_type();
    // Sizes below 0 count as 0 and none is more than there are rows, so that sums fit.
    auto bound = [&](int64_t value) { return rewrite_.Splat(ScalarOfInt(type, value), sizes->shape().dims()); };
    int value_bits = BitWidth(type) - (IsSigned(type) ? 1 : 0);
    if (value_bits >= 63 || rows_ < (int64_t{1} << value_bits))
      sizes = rewrite_.Binary(Opcode::kMinimum, sizes, bound(rows_));
    if (IsSigned(type)) sizes = rewrite_.Binary(Opcode::kMaximum, sizes, bound(0));
    ElementType wide = rows_ <= INT32_MAX / std::max<int64_t>(groups_, 1) ? ElementType::kS32 : ElementType::kS64;
    sizes = rewrite_.Convert(sizes, wide);
    KRAFLA_ASSIGN(Instruction * ends, RunningSum(sizes));
    Instruction* starts = rewrite_.Binary(Opcode::kSubtract, ends, sizes);

    Dims dims = sizes->shape().dims(), mapping;
    auto leading = static_cast<int64_t>(dims.size()) - 1;
    for (int64_t d = 0; d < leading; ++d) mapping.push_back(d);
    mapping.push_back(leading + 1);
    dims.insert(dims.begin() + leading, rows_);
    KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(wide, dims));
    Instruction* row = rewrite_.Add(Opcode::kIota, shape, {}, IotaAttributes{leading});
    Instruction* after = rewrite_.Compare(ComparisonDirection::kGe, row, rewrite_.Broadcast(starts, dims, mapping));
    Instruction* before = rewrite_.Compare(ComparisonDirection::kLt, row, rewrite_.Broadcast(ends, dims, mapping));
    return rewrite_.Binary(Opcode::kAnd, after, before);
  }

  Result<Instruction*> RunningSum(Instruction* sizes) {
    if (groups_ == 1) return sizes;
    WindowAttributes attributes;
    attributes.window.resize(static_cast<std::size_t>(sizes->shape().rank()));
    attributes.window.back().size = groups_;
    attributes.window.back().padding_low = groups_ - 1;
    ElementType type = sizes->shape().element_type();
    Computation* add = AddBinaryComputation(*i_->parent()->parent(), Opcode::kAdd, Shape::MakeScalar(type));
    return rewrite_.Infer(Opcode::kReduceWindow, {sizes, rewrite_.Constant(ScalarZero(type))}, attributes, {add});
  }

  // The dimensions of the left side that the group sizes differ along.
  Dims Leading() const {
    Dims out;
    auto count = static_cast<std::size_t>(i_->operand(2)->shape().rank() - 1);
    Dims order = a_.lhs_batch;
    Dims more = Contains(a_.lhs_contracting, ragged_)
                    ? a_.lhs_contracting
                    : FreeDims(lhs_->shape().rank(), a_.lhs_contracting, a_.lhs_batch);
    order.append(more.begin(), more.end());
    for (std::size_t n = 0; n < count; ++n) out.push_back(order[n]);
    return out;
  }

  Result<Instruction*> Free(Instruction* mask) {
    int64_t group_dim = i_->attr<RaggedDotAttributes>().rhs_group_dims[0];
    Dims lhs_free = FreeDims(lhs_->shape().rank(), a_.lhs_contracting, a_.lhs_batch);
    Dims rhs_free = FreeDims(rhs_->shape().rank(), a_.rhs_contracting, a_.rhs_batch);
    KRAFLA_ASSIGN(Instruction * products, rewrite_.Infer(Opcode::kDot, {lhs_, rhs_}, a_, {}, nullptr));
    // Accumulate in the type that the result is declared in.
    products->set_shape(products->shape().WithElementType(i_->shape().element_type()));
    auto place = [&](int64_t d) {
      return Contains(a_.lhs_batch, d) ? PositionOf(a_.lhs_batch, d) : a_.lhs_batch.ssize() + PositionOf(lhs_free, d);
    };
    Dims mapping;
    for (int64_t d : Leading()) mapping.push_back(place(d));
    mapping.push_back(place(ragged_));
    int64_t group = a_.lhs_batch.ssize() + lhs_free.ssize() + PositionOf(rhs_free, group_dim);
    mapping.push_back(group);
    Instruction* zero = rewrite_.Splat(ScalarZero(i_->shape().element_type()), products->shape().dims());
    Instruction* picked = rewrite_.Select(rewrite_.Broadcast(mask, products->shape().dims(), mapping), products, zero);
    return rewrite_.Reduce(Opcode::kAdd, picked, ScalarZero(i_->shape().element_type()), {&group, 1});
  }

  // `x` once a group (the new dimension 0), zero outside the group. `dims`: where the mask's dimensions but the last
  // lie in x.
  Result<Instruction*> Masked(Instruction* x, Instruction* mask, const Dims& where) {
    Dims dims = x->shape().dims(), mapping;
    dims.insert(dims.begin(), groups_);
    for (int64_t d = 0; d < x->shape().rank(); ++d) mapping.push_back(d + 1);
    KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(x->shape().element_type(), dims));
    Dims mask_mapping;
    for (int64_t d : where) mask_mapping.push_back(d + 1);
    mask_mapping.push_back(0);
    return rewrite_.Select(rewrite_.Broadcast(mask, dims, mask_mapping), rewrite_.Broadcast(x, dims, mapping),
                           rewrite_.Splat(ScalarZero(shape.element_type()), dims));
  }

  Result<Instruction*> Contracting(Instruction* mask) {
    Dims lhs_where = Leading(), rhs_where;
    lhs_where.push_back(ragged_);
    for (int64_t d : lhs_where)
      rhs_where.push_back(Contains(a_.lhs_batch, d)
                              ? a_.rhs_batch[static_cast<std::size_t>(PositionOf(a_.lhs_batch, d))]
                              : a_.rhs_contracting[static_cast<std::size_t>(PositionOf(a_.lhs_contracting, d))]);
    KRAFLA_ASSIGN(Instruction * lhs, Masked(lhs_, mask, lhs_where));
    KRAFLA_ASSIGN(Instruction * rhs, Masked(rhs_, mask, rhs_where));
    DotAttributes a = a_;
    for (Dims* dims : {&a.lhs_contracting, &a.rhs_contracting, &a.lhs_batch, &a.rhs_batch})
      for (int64_t& d : *dims) ++d;
    a.lhs_batch.insert(a.lhs_batch.begin(), 0);
    a.rhs_batch.insert(a.rhs_batch.begin(), 0);
    return rewrite_.Add(Opcode::kDot, i_->shape(), {lhs, rhs}, a);
  }

  Instruction* i_;
  Rewriter rewrite_;
  DotAttributes a_;
  Instruction *lhs_, *rhs_;
  int64_t ragged_, groups_ = 0, rows_ = 0;
};

}  // namespace

Result<bool> RaggedDotExpander(Module& module, const PassOptions&) {
  return RewriteAll(module, Opcode::kRaggedDot, [](Instruction* i) -> Result<Instruction*> {
    if (!IsStatic(*i)) return nullptr;
    return RaggedDotParts(i).Run();
  });
}

}  // namespace krafla
