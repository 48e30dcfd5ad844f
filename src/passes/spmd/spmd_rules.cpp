// SPDX-License-Identifier: Apache-2.0
#include "passes/spmd/spmd_rules.h"

#include <algorithm>
#include <charconv>

#include "base/index.h"
#include "ir/builder.h"
#include "ir/custom_call.h"
#include "passes/lift.h"
#include "passes/spmd/spmd_rule.h"
#include "passes/spmd/spmd_walk.h"

namespace krafla::spmd {
namespace {

// Of operations without a file of their own.
class PlainRule : public Rule {
 public:
  using Rule::Rule;

  Out Apply() {
    if (IsElementwise(i_.opcode()) || i_.opcode() == Opcode::kMap || i_.opcode() == Opcode::kCopy) return Elementwise();
    if (i_.opcode() == Opcode::kBroadcast) return Broadcast();
    if (i_.opcode() == Opcode::kTranspose) return Transpose();
    if (i_.opcode() == Opcode::kReshape) return Reshape();
    if (i_.opcode() == Opcode::kConvolution) return Convolution();
    if (i_.opcode() == Opcode::kConcatenate) return Concatenate();
    if (i_.opcode() == Opcode::kCustomCall) return ManyProblems();
    return Along();
  }

 private:
  Out Elementwise() {
    if (!i_.shape().IsArray()) return std::nullopt;
    std::vector<std::size_t> arrays;
    for (std::size_t o = 0; o < operands_.size(); ++o) {
      const Shape& shape = i_.operand(o)->shape();
      if (Shape::SameDims(shape, i_.shape())) arrays.push_back(o);
      else if (shape.rank() != 0) return std::nullopt;  // a bitcast-convert to another width
    }
    if (arrays.empty()) return std::nullopt;
    Splits dims = Common(arrays);
    if (!AnyCut(dims)) return std::nullopt;
    std::vector<Instruction*> made;
    for (std::size_t o = 0; o < operands_.size(); ++o) {
      const bool scalar = std::ranges::find(arrays, o) == arrays.end();
      KRAFLA_ASSIGN(Instruction * one, scalar ? WholeOperand(o) : Operand(o, dims));
      made.push_back(one);
    }
    return Finish(std::move(made), std::move(dims));
  }

  Out Broadcast() {
    const Dims& mapped = i_.attr<DimensionsAttributes>().dimensions;
    Splits dims = WholeDims(i_.shape().rank());
    for (std::size_t d = 0; d < mapped.size(); ++d) dims[At(mapped[d])] = operands_[0].dims[d];
    if (!AnyCut(dims)) return std::nullopt;
    return Finish({operands_[0].local}, std::move(dims));
  }

  Out Transpose() {
    const Dims& permutation = i_.attr<DimensionsAttributes>().dimensions;
    Splits dims = WholeDims(i_.shape().rank());
    for (std::size_t d = 0; d < permutation.size(); ++d) dims[d] = operands_[0].dims[At(permutation[d])];
    if (!AnyCut(dims)) return std::nullopt;
    return Finish({operands_[0].local}, std::move(dims));
  }

  // When a reshape merges or splits dimensions, the slowest-varying one keeps its sharding. Where the blocks of both
  // sides are not the same, rows go to neighbours, or the cut to another dimension.
  Out Reshape() {
    const Dims& from = i_.operand(0)->shape().dims();
    const Dims& to = i_.shape().dims();
    if (i_.shape().element_count() == 0) return std::nullopt;
    Splits in = WholeDims(from.ssize()), out = WholeDims(to.ssize());
    const std::vector<ReshapeGroup> groups = ReshapeGroups(from, to);
    std::vector<bool> free(from.size(), false);
    std::optional<std::size_t> other;  // the group of which the blocks are not the same
    for (std::size_t n = 0; n < groups.size(); ++n) {
      const std::size_t p = groups[n].slowest_from, q = groups[n].slowest_to;
      if (p >= groups[n].from_end || q >= groups[n].to_end) continue;
      const Split& split = operands_[0].dims[p];
      if (split.whole()) continue;
      in[p] = split;
      if (GoesThrough(groups[n], from, to, split)) {
        out[q] = split;
        continue;
      }
      if (other) in[groups[*other].slowest_from] = Split();
      other = n;
    }
    if (other) {
      KRAFLA_ASSIGN(std::optional<Value> rebalanced, ReshapeByRows(groups, *other, in, out));
      if (rebalanced) return rebalanced;
      in[groups[*other].slowest_from] = Split();
      MoveCut(groups, operands_[0].dims[groups[*other].slowest_from], in, out);
    }
    for (const ReshapeGroup& g : groups)
      if (g.slowest_from < g.from_end && (g.slowest_to >= g.to_end || out[g.slowest_to].whole()))
        in[g.slowest_from] = Split();
    if (!AnyCut(out)) return std::nullopt;
    KRAFLA_ASSIGN(Instruction * operand, Operand(0, in));
    return Finish({operand}, std::move(out));
  }

  // Cuts the largest dimension that is whole and may be cut so, before the reshape and after it.
  void MoveCut(const std::vector<ReshapeGroup>& groups, const Split& split, Splits& in, Splits& out) const {
    const Dims &from = i_.operand(0)->shape().dims(), &to = i_.shape().dims();
    const ReshapeGroup* best = nullptr;
    for (const ReshapeGroup& g : groups)
      if (g.slowest_from < g.from_end && g.slowest_to < g.to_end && in[g.slowest_from].whole() &&
          GoesThrough(g, from, to, split) && (best == nullptr || from[g.slowest_from] > from[best->slowest_from]))
        best = &g;
    if (best != nullptr) in[best->slowest_from] = out[best->slowest_to] = split;
  }

  // The elements of one group are rows of blocks that have other numbers of them before and after.
  Out ReshapeByRows(const std::vector<ReshapeGroup>& groups, std::size_t other, const Splits& in, Splits out) {
    const ReshapeGroup& g = groups[other];
    const Split& split = in[g.slowest_from];
    const Dims& to = i_.shape().dims();
    if (!MayBeCutInto(i_.operand(0)->shape().dims()[g.slowest_from], split) || !MayBeCutInto(to[g.slowest_to], split))
      return std::nullopt;
    out[g.slowest_to] = split;
    if (!MayCut(in) || !MayCut(out)) return std::nullopt;
    KRAFLA_ASSIGN(const Shape block, BlockShape(i_.shape(), out));
    // The dimensions of the result, those of the group melted.
    RowBlocks rows{nullptr, 0, 0, 0, 1, 1, {}, {}};
    Dims local, melted;
    for (std::size_t d = 0; d < to.size(); ++d) {
      if (d < g.to || d >= g.to_end) {
        local.push_back(block.dims()[d]);
        rows.sizes.push_back(to[d]);
        rows.dims.push_back(out[d]);
        continue;
      }
      if (d == g.to) {
        rows.dim = local.size();
        local.push_back(1);
        rows.sizes.push_back(1);
        rows.dims.push_back(split);
      }
      rows.block *= block.dims()[d];
      rows.sizes[rows.dim] *= to[d];
      rows.count *= to[d];
    }
    KRAFLA_ASSIGN(Value operand, emitter_.Reshard(operands_[0], in));
    for (std::size_t d = groups[other].slowest_from; d < g.from_end; ++d)
      local[rows.dim] *= operand.local->shape().dims()[d];
    KRAFLA_ASSIGN(rows.local, AddReshape(emitter_.out(), operand.local, local));
    KRAFLA_ASSIGN(std::optional<Instruction*> made, Rebalance(i_, rows, region_, emitter_));
    if (!made) return std::nullopt;
    KRAFLA_ASSIGN(Instruction * reshaped, AddReshape(emitter_.out(), *made, block.dims()));
    return Made(reshaped, std::move(out));
  }

  // Cut along the batch, the features that come out, or (parts of a sum) those that go in.
  Out Convolution() {
    const auto& a = i_.attr<ConvolutionAttributes>();
    if (a.batch_group_count != 1) return std::nullopt;
    Splits all(3);  // batch, output features, input features
    auto join = [&](std::size_t n, const Split& split) {
      if (!all[n].whole()) return;
      all[n] = split;
      if (!MayCut(all)) all[n] = Split();
    };
    join(0, operands_[0].dims[At(a.input_batch)]);
    if (a.feature_group_count == 1) {
      join(1, operands_[1].dims[At(a.kernel_output_feature)]);
      if (operands_[0].dims[At(a.input_feature)] == operands_[1].dims[At(a.kernel_input_feature)])
        join(2, operands_[0].dims[At(a.input_feature)]);
    }
    if (i_.shape().element_type() == ElementType::kPred) all[2] = Split();
    if (!AnyCut(all)) return std::nullopt;
    const int64_t rank = i_.shape().rank();
    Splits input = WholeDims(rank), kernel = WholeDims(rank), out = WholeDims(rank);
    input[At(a.input_batch)] = out[At(a.output_batch)] = all[0];
    kernel[At(a.kernel_output_feature)] = out[At(a.output_feature)] = all[1];
    input[At(a.input_feature)] = kernel[At(a.kernel_input_feature)] = all[2];
    const std::size_t of_input = At(a.input_feature), of_kernel = At(a.kernel_input_feature);
    KRAFLA_ASSIGN(Instruction * x, Operand(0, input, std::span(&of_input, 1)));
    KRAFLA_ASSIGN(Instruction * k, Operand(1, kernel, std::span(&of_kernel, 1)));
    return WithSum(Finish({x, k}, std::move(out)), all[2]);
  }

  Out Concatenate() {
    const std::vector<std::size_t> arrays = FirstOperands(operands_.size());
    Splits dims = Common(arrays);
    const std::size_t along = At(i_.attr<DimensionsAttributes>().dimensions[0]);
    std::vector<bool> alone(dims.size(), true);
    alone[along] = false;
    MoveAway(dims, along, i_.shape().dims(), alone);
    if (!AnyCut(dims)) return std::nullopt;
    std::vector<Instruction*> made;
    for (std::size_t o : arrays) {
      KRAFLA_ASSIGN(Instruction * one, Operand(o, dims));
      made.push_back(one);
    }
    return Finish(std::move(made), std::move(dims));
  }

  // JAX says of its custom calls how many dimensions of all operands and results only count problems, as XLA's
  // partitioner reads it. What does not fit is as if nobody had said it.
  int64_t SaidBatchRank() const {
    const std::string_view said = FrontendAttribute(i_.metadata(), "num_batch_dims");
    int64_t count = 0;
    const auto [end, error] = std::from_chars(said.data(), said.data() + said.size(), count);
    if (error != std::errc() || end != said.data() + said.size() || count < 1 || i_.operand_count() == 0) return 0;
    std::vector<const Shape*> shapes;
    for (const Instruction* o : i_.operands()) shapes.push_back(&o->shape());
    if (!i_.shape().IsTuple()) shapes.push_back(&i_.shape());
    for (const Shape& s : i_.shape().tuple_elements()) shapes.push_back(&s);
    const auto fits = [&](const Shape* s) {
      return s->IsArray() && s->rank() >= count &&
             std::equal(s->dims().begin(), s->dims().begin() + count, shapes[0]->dims().begin());
    };
    return std::ranges::all_of(shapes, fits) ? count : 0;
  }

  // Decompositions of many matrices: each device has some of them.
  Out ManyProblems() {
    const auto batch_rank = At(std::max(BatchRankOfCustomCall(i_), SaidBatchRank()));
    if (batch_rank == 0) return std::nullopt;
    Splits batch(batch_rank);
    for (const Value& v : operands_) Join(batch, std::span(v.dims).first(batch_rank));
    if (!AnyCut(batch)) return std::nullopt;
    std::vector<Instruction*> made;
    for (std::size_t o = 0; o < operands_.size(); ++o) {
      Splits dims = batch;
      dims.resize(operands_[o].dims.size());
      KRAFLA_ASSIGN(Instruction * one, Operand(o, dims));
      made.push_back(one);
    }
    return Finish(std::move(made), std::move(batch));
  }

  // Of dimensions that are left alone those of which each block has its part of all arrays, whatever the number of
  // blocks.
  std::vector<bool> MayBeCut(const std::vector<bool>& alone, std::span<const std::size_t> arrays) const {
    std::vector<bool> out = alone;
    const Shape& first = i_.operand(0)->shape();
    const bool made = i_.shape().IsArray() && i_.shape().rank() == first.rank();
    for (std::size_t d = 0; d < out.size(); ++d) {
      for (const std::size_t o : arrays) out[d] = out[d] && i_.operand(o)->shape().dims()[d] == first.dims()[d];
      if (made) out[d] = out[d] && i_.shape().dims()[d] == first.dims()[d];
    }
    return out;
  }

  // Whether blocks of the operand's dimension have `times` the rows of the result's, or the other way.
  bool BlocksAre(int64_t d, int64_t times) const {
    const Split& split = operands_[0].dims[At(d)];
    const int64_t size = i_.operand(0)->shape().dim(d), made = i_.shape().dim(d);
    const int64_t from = BlockSize(size, split), to = BlockSize(made, split);
    return MayBeCutInto(size, split) && MayBeCutInto(made, split) && std::max(from, to) == times * std::min(from, to);
  }

  // Whether the windows of a select-and-scatter along a dimension lie side by side, and none in two blocks.
  bool StaysInBlocks(const WindowDim& w, std::size_t d) const {
    WindowDim side_by_side;
    side_by_side.size = side_by_side.stride = w.size;
    const int64_t input = i_.operand(0)->shape().dims()[d], windows = i_.operand(1)->shape().dims()[d];
    const auto is_block = [&](const Split& s) { return BlockSize(input, s) == BlockSize(windows, s) * w.size; };
    return w == side_by_side && input == windows * w.size && is_block(operands_[0].dims[d]) &&
           is_block(operands_[1].dims[d]);
  }

  // What lies behind the end has come to the front then, and all rows go as many to the front again.
  Out ReverseRows() {
    const Dims& turned = i_.attr<DimensionsAttributes>().dimensions;
    Splits dims = operands_[0].dims;
    KRAFLA_ASSIGN(std::optional<Value> out, Finish({operands_[0].local}, dims));
    for (const int64_t n : turned) {
      const std::size_t d = At(n);
      for (int32_t& block : out->dims[d].block) block = static_cast<int32_t>(out->dims[d].count) - 1 - block;
      if (!operands_[0].IsPadded(d)) continue;
      const int64_t block = out->local->shape().dims()[d];
      const Dims& sizes = i_.shape().dims();
      const RowBlocks rows{out->local, d, block * dims[d].count - sizes[d], 0, sizes[d], block, sizes, out->dims};
      KRAFLA_ASSIGN(std::optional<Instruction*> moved, Rebalance(i_, rows, region_, emitter_));
      if (!moved) return std::nullopt;
      out->local = *moved;
    }
    return out;
  }

  // What the operation does to a block of dimensions that it leaves alone.
  Attributes AttributesOfBlock(const Splits& dims) const {
    Attributes attributes = i_.attributes();
    const Dims& sizes = i_.operand(0)->shape().dims();
    if (auto* s = std::get_if<SliceAttributes>(&attributes))
      for (std::size_t d = 0; d < dims.size(); ++d)
        if (!dims[d].whole()) s->limits[d] = BlockSize(sizes[d], dims[d]);
    if (auto* p = std::get_if<PadAttributes>(&attributes))
      for (std::size_t d = 0; d < dims.size(); ++d)
        if (!dims[d].whole()) p->high[d] = p->interior[d] - p->low[d];
    if (auto* s = std::get_if<DynamicSliceAttributes>(&attributes))
      for (std::size_t d = 0; d < dims.size(); ++d) s->slice_sizes[d] = BlockSize(s->slice_sizes[d], dims[d]);
    return attributes;
  }

  // Operations that leave some dimensions alone: those may be cut, in all arrays alike.
  Out Along() {
    std::vector<std::size_t> arrays;
    std::vector<bool> alone(operands_.empty() ? 0 : operands_[0].dims.size(), true);
    auto first = [&](std::size_t n) {
      for (std::size_t o = 0; o < n; ++o) arrays.push_back(o);
    };
    const Opcode op = i_.opcode();
    const Shape* shape = i_.operand_count() > 0 ? &i_.operand(0)->shape() : nullptr;
    if (shape == nullptr || !shape->IsArray()) return std::nullopt;
    const int64_t rank = shape->rank();
    if (op == Opcode::kSlice) {
      first(1);
      const auto& s = i_.attr<SliceAttributes>();
      for (int64_t d = 0; d < rank; ++d)
        alone[At(d)] = s.starts[At(d)] < s.strides[At(d)] && BlocksAre(d, s.strides[At(d)]);
    } else if (op == Opcode::kPad) {
      first(1);
      const auto& p = i_.attr<PadAttributes>();
      // At an end no more than between two, so that a block begins where the elements of a block of the operand do.
      for (std::size_t d = 0; d < alone.size(); ++d)
        alone[d] = p.low[d] >= 0 && p.low[d] <= p.interior[d] && p.high[d] >= 0 && p.high[d] <= p.interior[d] &&
                   BlocksAre(static_cast<int64_t>(d), p.interior[d] + 1);
    } else if (op == Opcode::kReverse) {
      first(1);
      if (std::ranges::any_of(i_.attr<DimensionsAttributes>().dimensions,
                              [&](int64_t d) { return operands_[0].IsPadded(At(d)); })) {
        KRAFLA_ASSIGN(std::optional<Value> reversed, ReverseRows());
        if (reversed) return reversed;
      }
      for (const int64_t d : i_.attr<DimensionsAttributes>().dimensions) alone[At(d)] = !operands_[0].IsPadded(At(d));
    } else if (op == Opcode::kDynamicSlice) {
      first(1);
      const Dims& sizes = i_.attr<DynamicSliceAttributes>().slice_sizes;
      for (int64_t d = 0; d < rank; ++d) alone[At(d)] = sizes[At(d)] == shape->dim(d);
    } else if (op == Opcode::kDynamicUpdateSlice) {
      first(2);
      for (int64_t d = 0; d < rank; ++d) alone[At(d)] = i_.operand(1)->shape().dim(d) == shape->dim(d);
    } else if (op == Opcode::kSort) {
      first(operands_.size());
      alone[At(i_.attr<SortAttributes>().dimension)] = false;
    } else if (op == Opcode::kReduceWindow) {
      first(operands_.size() / 2);
      const Window& window = i_.attr<WindowAttributes>().window;
      for (std::size_t d = 0; d < alone.size(); ++d) alone[d] = window[d] == WindowDim();
    } else if (op == Opcode::kSelectAndScatter) {
      first(2);
      const Window& window = i_.attr<WindowAttributes>().window;
      for (std::size_t d = 0; d < alone.size(); ++d) alone[d] = window[d] == WindowDim() || StaysInBlocks(window[d], d);
    } else if (op == Opcode::kFft) {
      first(1);
      for (int64_t d = rank - i_.attr<FftAttributes>().length.ssize(); d < rank; ++d) alone[At(d)] = false;
    } else if (op == Opcode::kCholesky || op == Opcode::kTriangularSolve) {
      first(op == Opcode::kCholesky ? 1 : 2);
      for (int64_t d = rank - 2; d < rank; ++d) alone[At(d)] = false;
    } else if (op == Opcode::kTopK) {
      first(1);
      alone[At(rank - 1)] = false;
    } else {
      return std::nullopt;
    }
    Splits dims = Common(arrays);
    const std::vector<bool> free = MayBeCut(alone, arrays);
    for (std::size_t d = 0; d < dims.size(); ++d)
      if (!alone[d]) MoveAway(dims, d, shape->dims(), free);
    if (!AnyCut(dims)) return std::nullopt;
    std::vector<Instruction*> made;
    for (std::size_t o = 0; o < operands_.size(); ++o) {
      KRAFLA_ASSIGN(Instruction * one, o < arrays.size() ? Operand(o, dims) : WholeOperand(o));
      made.push_back(one);
    }
    KRAFLA_ASSIGN(std::optional<Value> out, Finish(std::move(made), std::move(dims)));
    if (!out->is_tuple) out->local->set_attributes(AttributesOfBlock(out->dims));
    // Each block is turned round where it lies; the first of them is the last now.
    if (op == Opcode::kReverse)
      for (int64_t d : i_.attr<DimensionsAttributes>().dimensions)
        for (int32_t& block : out->dims[At(d)].block) block = static_cast<int32_t>(out->dims[At(d)].count) - 1 - block;
    return out;
  }
};

}  // namespace

Result<std::optional<Value>> DoByBlocks(const Instruction& instruction, std::span<const Value> operands,
                                        const Region* region, const Wishes& wishes, Emitter& emitter) {
  bool any = false;
  for (const Value& v : operands) {
    if (!v.IsArray() || v.local->shape().IsDynamic()) return std::nullopt;
    any |= !v.IsWhole();
  }
  if (!any || instruction.shape().IsDynamic()) return std::nullopt;
  const Opcode op = instruction.opcode();
  if (op == Opcode::kDot) return DotInBlocks(instruction, operands, region, wishes, emitter);
  if (op == Opcode::kReduce) return ReduceInBlocks(instruction, operands, region, wishes, emitter);
  if (op == Opcode::kGather) return GatherInBlocks(instruction, operands, region, wishes, emitter);
  if (op == Opcode::kScatter || op == Opcode::kSlice || op == Opcode::kPad) {
    KRAFLA_ASSIGN(std::optional<Value> box, BoxInBlocks(instruction, operands, region, wishes, emitter));
    if (box) return box;
  }
  if (op == Opcode::kScatter) return ScatterInBlocks(instruction, operands, region, wishes, emitter);
  if (op == Opcode::kDynamicSlice || op == Opcode::kDynamicUpdateSlice) {
    KRAFLA_ASSIGN(std::optional<Value> rows, DynamicSliceInBlocks(instruction, operands, region, wishes, emitter));
    if (rows) return rows;
  }
  if (op == Opcode::kConvolution || op == Opcode::kReduceWindow) {
    KRAFLA_ASSIGN(std::optional<Value> windows, WindowsInBlocks(instruction, operands, region, wishes, emitter));
    if (windows) return windows;
  }
  return PlainRule(instruction, operands, region, wishes, emitter).Apply();
}

}  // namespace krafla::spmd
