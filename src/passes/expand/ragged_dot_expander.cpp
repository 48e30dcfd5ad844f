// SPDX-License-Identifier: Apache-2.0
// ragged-dot as dots and masks (XLA: ragged_dot_rewriter.cc). The ragged dimension of the left side falls into groups:
//   free:        rows meet their own group's matrix alone, which a gather names: each row by itself where they are few
//                for a group, else in blocks of rows of one group. A dot reads such a matrix where it lies. In small
//                products every row meets every group's matrix, and a mask picks the right product. Masking the result,
//                not the operand, keeps an infinity in one group's matrix from the rows of another.
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
    if (HasOwnMatrices()) {
      KRAFLA_ASSIGN(const Bounds bounds, FindBounds());
      const int64_t block = RowsOfBlock();
      return block == 1 ? ByRows(bounds) : ByBlocks(bounds, block);
    }
    KRAFLA_ASSIGN(Instruction * mask, Mask());
    return Contains(a_.lhs_contracting, ragged_) ? Contracting(mask) : Free(mask);
  }

 private:
  // Of the groups, in the shape of the group sizes: the rows [start, end).
  struct Bounds {
    Instruction *sizes = nullptr, *starts = nullptr, *ends = nullptr;
  };
  Result<Bounds> FindBounds() {
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
    return Bounds{sizes, rewrite_.Binary(Opcode::kSubtract, ends, sizes), ends};
  }

  // [leading..., row, group]: whether the row is of the group. The leading dimensions of the group sizes, if any, are
  // listed by Leading().
  Result<Instruction*> Mask() {
    KRAFLA_ASSIGN(const Bounds bounds, FindBounds());
    return Within(bounds.starts, bounds.ends, rows_);
  }
  // The same of `count` numbers and any bounds.
  Result<Instruction*> Within(Instruction* starts, Instruction* ends, int64_t count) {
    Dims dims = ends->shape().dims(), mapping;
    auto leading = static_cast<int64_t>(dims.size()) - 1;
    for (int64_t d = 0; d < leading; ++d) mapping.push_back(d);
    mapping.push_back(leading + 1);
    dims.insert(dims.begin() + leading, count);
    KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(ends->shape().element_type(), dims));
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

  // Whether to find each row's own matrix: rows without batches, one size for each group, and so much work that it
  // pays.
  bool HasOwnMatrices() const {
    constexpr double kLeastWork = 1 << 18;
    if (Contains(a_.lhs_contracting, ragged_) || !a_.lhs_batch.empty() || i_->operand(2)->shape().rank() != 1 ||
        groups_ < 2 || FreeDims(lhs_->shape().rank(), a_.lhs_contracting, a_.lhs_batch).size() != 1)
      return false;
    return static_cast<double>(rows_) * static_cast<double>(rhs_->shape().element_count()) >= kLeastWork;
  }
  // A block of rows is worth as much as 4 rows more, for which its matrix is read again; a back end may multiply those
  // of one matrix together. Blocks of one group have half a block of rows too many, so that many rows have large ones.
  int64_t RowsOfBlock() const {
    constexpr int64_t kFewRows = 4, kRowsOfMatrix = 4, kLeast = 8, kMost = 256;
    if (rows_ <= kFewRows * groups_) return 1;
    int64_t block = kLeast;
    while (block < kMost && block * block * 2 <= kRowsOfMatrix * (rows_ / groups_)) block *= 2;
    return block;
  }

  // For each of the numbers along dimension 0 of `within`, the one of the group's values that it is of; 0: of none.
  Result<Instruction*> OfGroup(Instruction* within, Instruction* values) {
    const ElementType type = values->shape().element_type();
    const Dims& dims = within->shape().dims();
    const int64_t group_dim = 1;
    Instruction* picked =
        rewrite_.Select(within, rewrite_.Broadcast(values, dims, Dims{1}), rewrite_.Splat(ScalarZero(type), dims));
    return rewrite_.Reduce(Opcode::kAdd, picked, ScalarZero(type), {&group_dim, 1});
  }
  Instruction* Numbers(ElementType type, int64_t count) {
    return rewrite_.Add(Opcode::kIota, ArrayShape(type, Dims{count}), {}, IotaAttributes{0});
  }

  // The groups' matrices named by `groups`, one behind the other along a new dimension 0.
  Result<Instruction*> Matrices(Instruction* groups) {
    const int64_t group_dim = i_->attr<RaggedDotAttributes>().rhs_group_dims[0];
    GatherAttributes gather;
    gather.slice_sizes = rhs_->shape().dims();
    gather.slice_sizes[static_cast<std::size_t>(group_dim)] = 1;
    for (int64_t d = 1; d < rhs_->shape().rank(); ++d) gather.offset_dims.push_back(d);
    gather.collapsed_slice_dims = gather.start_index_map = Dims{group_dim};
    gather.index_vector_dim = 1;
    return rewrite_.Infer(Opcode::kGather, {rhs_, groups}, gather);
  }
  // The dimensions of the right side that are contracted, as Matrices has them.
  Dims ContractingOfMatrices() const {
    const int64_t group_dim = i_->attr<RaggedDotAttributes>().rhs_group_dims[0];
    Dims out;
    for (int64_t d : a_.rhs_contracting) out.push_back(d < group_dim ? d + 1 : d);
    return out;
  }
  // `result`, and zeros in rows of no group.
  Result<Instruction*> InGroups(Instruction* result, Instruction* mask) {
    const int64_t group_dim = 1;
    KRAFLA_ASSIGN(Instruction * in_any,
                  rewrite_.Reduce(Opcode::kOr, mask, ScalarZero(ElementType::kPred), {&group_dim, 1}));
    const Dims& dims = result->shape().dims();
    return rewrite_.Select(rewrite_.Broadcast(in_any, dims, Dims{0}), result,
                           rewrite_.Splat(ScalarZero(result->shape().element_type()), dims));
  }

  Result<Instruction*> ByRows(const Bounds& bounds) {
    KRAFLA_ASSIGN(Instruction * mask, Within(bounds.starts, bounds.ends, rows_));
    KRAFLA_ASSIGN(Instruction * groups, OfGroup(mask, Numbers(bounds.ends->shape().element_type(), groups_)));
    KRAFLA_ASSIGN(Instruction * matrices, Matrices(groups));
    DotAttributes a = a_;
    a.lhs_batch = Dims{ragged_};
    a.rhs_batch = Dims{0};
    a.rhs_contracting = ContractingOfMatrices();
    return InGroups(rewrite_.Add(Opcode::kDot, i_->shape(), {lhs_, matrices}, a), mask);
  }

  // Groups fall into blocks of `block` rows each, of which the last ones reach over their groups' ends; all of them are
  // at most so many.
  Result<Instruction*> ByBlocks(const Bounds& bounds, int64_t block) {
    const ElementType type = bounds.ends->shape().element_type();
    const int64_t blocks = rows_ / block + groups_;
    const auto splat = [&](int64_t value, const Dims& dims) { return rewrite_.Splat(ScalarOfInt(type, value), dims); };
    const Dims of_groups{groups_}, of_blocks{blocks}, of_rows{rows_}, in_blocks{blocks, block};
    Instruction* rounded = rewrite_.Binary(Opcode::kAdd, bounds.sizes, splat(block - 1, of_groups));
    Instruction* counts = rewrite_.Binary(Opcode::kDivide, rounded, splat(block, of_groups));
    KRAFLA_ASSIGN(Instruction * block_ends, RunningSum(counts));
    Instruction* block_starts = rewrite_.Binary(Opcode::kSubtract, block_ends, counts);

    // Row `i` of a block is its group's start + i + `block` for each block of the group before it.
    KRAFLA_ASSIGN(Instruction * is_block_of, Within(block_starts, block_ends, blocks));
    KRAFLA_ASSIGN(Instruction * groups, OfGroup(is_block_of, Numbers(type, groups_)));
    const auto scaled = [&](Instruction* x, const Dims& dims) {
      return rewrite_.Binary(Opcode::kMultiply, x, splat(block, dims));
    };
    Instruction* moved = rewrite_.Binary(Opcode::kSubtract, bounds.starts, scaled(block_starts, of_groups));
    KRAFLA_ASSIGN(Instruction * base, OfGroup(is_block_of, moved));
    Instruction* first = rewrite_.Binary(Opcode::kAdd, base, scaled(Numbers(type, blocks), of_blocks));
    Instruction* rows =
        rewrite_.Binary(Opcode::kAdd, rewrite_.Broadcast(first, in_blocks, Dims{0}),
                        rewrite_.Add(Opcode::kIota, ArrayShape(type, in_blocks), {}, IotaAttributes{1}));
    KRAFLA_ASSIGN(Instruction * lhs, RowsOf(lhs_, ragged_, rows, 2));
    KRAFLA_ASSIGN(Instruction * matrices, Matrices(groups));
    DotAttributes a = a_;
    a.lhs_batch = a.rhs_batch = Dims{0};
    a.rhs_contracting = ContractingOfMatrices();
    // The blocks' two dimensions come first.
    for (int64_t& d : a.lhs_contracting) d += d < ragged_ ? 2 : 1;
    Dims dims = i_->shape().dims();
    dims[0] = block;
    dims.insert(dims.begin(), blocks);
    KRAFLA_ASSIGN(const Shape shape, Shape::MakeArray(i_->shape().element_type(), dims));
    Instruction* products = rewrite_.Add(Opcode::kDot, shape, {lhs, matrices}, a);

    // Each row's place among them.
    dims.erase(dims.begin());
    dims[0] = blocks * block;
    KRAFLA_ASSIGN(Instruction * mask, Within(bounds.starts, bounds.ends, rows_));
    KRAFLA_ASSIGN(Instruction * back, OfGroup(mask, moved));
    Instruction* places = rewrite_.Binary(Opcode::kSubtract, Numbers(type, rows_), back);
    KRAFLA_ASSIGN(Instruction * result, RowsOf(rewrite_.Reshape(products, dims), 0, places, 1));
    return InGroups(result, mask);
  }
  // The slices of `x` along dimension `dim` that `numbers` names, its `rank` dimensions first.
  Result<Instruction*> RowsOf(Instruction* x, int64_t dim, Instruction* numbers, int64_t rank) {
    GatherAttributes gather;
    gather.slice_sizes = x->shape().dims();
    gather.slice_sizes[static_cast<std::size_t>(dim)] = 1;
    for (int64_t d = 0; d + 1 < x->shape().rank(); ++d) gather.offset_dims.push_back(d + rank);
    gather.collapsed_slice_dims = gather.start_index_map = Dims{dim};
    gather.index_vector_dim = rank;
    return rewrite_.Infer(Opcode::kGather, {x, numbers}, gather);
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
