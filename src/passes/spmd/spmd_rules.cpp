// SPDX-License-Identifier: Apache-2.0
#include "passes/spmd/spmd_rules.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/index.h"
#include "ir/builder.h"
#include "ir/custom_call.h"
#include "passes/lift.h"
#include "passes/spmd/spmd_parts.h"
#include "passes/spmd/spmd_walk.h"

namespace krafla::spmd {
namespace {

using Splits = std::vector<Split>;

// One instruction on its way.
class Rule {
 public:
  Rule(const Instruction& instruction, std::span<const Value> operands, const Region* region,
       const std::vector<Split>& parts, Emitter& emitter)
      : i_(instruction),
        operands_(operands.begin(), operands.end()),
        region_(region),
        parts_(parts),
        emitter_(emitter),
        devices_(instruction.parent()->parent()->num_partitions) {}

  Result<std::optional<Value>> Apply() {
    if (IsElementwise(i_.opcode()) || i_.opcode() == Opcode::kMap || i_.opcode() == Opcode::kCopy) return Elementwise();
    if (i_.opcode() == Opcode::kBroadcast) return Broadcast();
    if (i_.opcode() == Opcode::kTranspose) return Transpose();
    if (i_.opcode() == Opcode::kReshape) return Reshape();
    if (i_.opcode() == Opcode::kReduce) return Reduce();
    if (i_.opcode() == Opcode::kDot) return Dot();
    if (i_.opcode() == Opcode::kConvolution) return Convolution();
    if (i_.opcode() == Opcode::kConcatenate) return Concatenate();
    if (i_.opcode() == Opcode::kGather) return GatherByIndices();
    if (i_.opcode() == Opcode::kScatter) return Scatter();
    if (i_.opcode() == Opcode::kCustomCall) return ManyProblems();
    return Along();
  }

 private:
  using Out = Result<std::optional<Value>>;

  int64_t Bytes(std::size_t operand) const { return operands_[operand].local->shape().byte_size(); }

  bool MayCut(std::span<const Split> dims) const { return Covers(dims, region_, devices_); }

  // `dims` with what `more` cuts and it does not, as far as every block has a device.
  void Join(Splits& dims, std::span<const Split> more) const {
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (!dims[d].whole() || more[d].whole()) continue;
      dims[d] = more[d];
      if (!MayCut(dims)) dims[d] = Split();
    }
  }

  // The sharding that most elements have already, with what others add.
  Splits Common(std::span<const std::size_t> which) {
    std::vector<std::size_t> order(which.begin(), which.end());
    // Cut the most first, as that is the least work, and the larger of two that are cut alike; last what any device can
    // make any block of.
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
      const bool free_a = emitter_.IsMadeOfNothing(operands_[a].local),
                 free_b = emitter_.IsMadeOfNothing(operands_[b].local);
      if (free_a != free_b) return free_b;
      const int64_t x = operands_[a].blocks(), y = operands_[b].blocks();
      return x != y ? x > y : Bytes(a) > Bytes(b);
    });
    Splits out = operands_[order[0]].dims;
    for (std::size_t o : order) Join(out, operands_[o].dims);
    return out;
  }

  Result<Instruction*> Operand(std::size_t o, std::span<const Split> dims) {
    KRAFLA_ASSIGN(Value value, emitter_.Reshard(operands_[o], dims));
    return value.local;
  }
  Result<Instruction*> WholeOperand(std::size_t o) {
    KRAFLA_ASSIGN(Value value, emitter_.Whole(operands_[o]));
    return value.local;
  }

  // The results of an instruction, each cut by `dims`, and whole in dimensions behind those.
  Out Finish(std::vector<Instruction*> operands, Splits dims) {
    Value out;
    if (!i_.shape().IsTuple()) {
      dims.resize(At(i_.shape().rank()));
      KRAFLA_ASSIGN(Shape shape, EvenBlock(i_.shape(), dims));
      out.local = emitter_.Clone(i_, std::move(shape), std::move(operands));
      out.dims = std::move(dims);
      out.region = region_;
      return out;
    }
    std::vector<Shape> shapes;
    for (const Shape& s : i_.shape().tuple_elements()) {
      KRAFLA_ASSIGN(Shape shape, EvenBlock(s, dims));
      shapes.push_back(std::move(shape));
    }
    KRAFLA_ASSIGN(Shape tuple, Shape::MakeTuple(std::move(shapes)));
    Instruction* made = emitter_.Clone(i_, std::move(tuple), std::move(operands));
    out.is_tuple = true;
    for (const Shape& s : i_.shape().tuple_elements()) {
      Value& element = out.elements.emplace_back();
      element.dims = dims;
      element.dims.resize(At(s.rank()));
      element.region = region_;
    }
    return emitter_.TakeApart(made, out);
  }

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

  // When a reshape merges or splits dimensions, the slowest-varying one keeps its sharding.
  Out Reshape() {
    const Dims& from = i_.operand(0)->shape().dims();
    const Dims& to = i_.shape().dims();
    if (i_.shape().element_count() == 0) return std::nullopt;
    Splits in = WholeDims(from.ssize()), out = WholeDims(to.ssize());
    for (const ReshapeGroup& g : ReshapeGroups(from, to)) {
      const std::size_t p = g.slowest_from, q = g.slowest_to;
      if (p >= g.from_end || q >= g.to_end) continue;
      const Split& split = operands_[0].dims[p];
      if (split.whole() || to[q] % split.count != 0) continue;
      in[p] = split;
      out[q] = split;
    }
    if (!AnyCut(out)) return std::nullopt;
    KRAFLA_ASSIGN(Instruction * operand, Operand(0, in));
    return Finish({operand}, std::move(out));
  }

  // Whether `init` changes nothing under the operation of `computation`, so that parts may start
  // from it each.
  static bool IsNeutral(const Computation& computation, const Instruction* init) {
    const std::optional<Opcode> opcode = BinaryOpcode(computation);
    if (!opcode || !init->IsConstant()) return false;
    const ElementType type = init->shape().element_type();
    auto is = [&](double value) { return init->literal() == ScalarLiteral(type, value); };
    const Opcode op = *opcode;
    if (op == Opcode::kAdd) return is(0) || (IsFloat(type) && is(-0.0));
    if (op == Opcode::kMultiply) return is(1);
    if (op == Opcode::kOr) return is(0);
    if (op == Opcode::kAnd) return type == ElementType::kPred && is(1);
    // The larger of the parts' maxima is the maximum whatever they start from.
    return op == Opcode::kMaximum || op == Opcode::kMinimum;
  }

  Out Reduce() {
    const Dims& reduced = i_.attr<DimensionsAttributes>().dimensions;
    const std::size_t count = operands_.size() / 2;
    std::vector<std::size_t> arrays(count);
    std::iota(arrays.begin(), arrays.end(), std::size_t{0});
    Splits dims = Common(arrays);
    const bool in_parts = count == 1 && !i_.shape().IsTuple() && IsNeutral(*i_.called(0), i_.operand(1));
    Split along;
    Splits out;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (std::ranges::find(reduced, static_cast<int64_t>(d)) == reduced.end()) out.push_back(dims[d]);
      else if (in_parts) along = Combine(along, dims[d]);
      else dims[d] = Split();
    }
    if (!AnyCut(dims)) return std::nullopt;
    std::vector<Instruction*> made;
    for (std::size_t o = 0; o < operands_.size(); ++o) {
      KRAFLA_ASSIGN(Instruction * one, o < count ? Operand(o, dims) : WholeOperand(o));
      made.push_back(one);
    }
    KRAFLA_ASSIGN(std::optional<Value> value, Finish(std::move(made), std::move(out)));
    if (along.whole()) return value;
    if (StaysInParts(along) && AddsTwo(*i_.called(0)) && IsNumber(i_.shape().element_type())) {
      value->unreduced = parts_;
      return value;
    }
    KRAFLA_ASSIGN(value->local, emitter_.Sum(value->local, along, value->dims, region_, i_.called(0)));
    return value;
  }

  bool StaysInParts(const Split& along) const {
    return !parts_.empty() && SamePlaces(std::span(&along, 1), parts_, devices_);
  }

  Out WithSum(Out value, const Split& along) {
    if (!value || along.whole()) return value;
    if (StaysInParts(along)) {
      (*value)->unreduced = parts_;
      return value;
    }
    KRAFLA_ASSIGN((*value)->local, emitter_.Sum((*value)->local, along, (*value)->dims, region_));
    return value;
  }

  // Batch dimensions are cut alike; contracted ones too, which leaves parts of a sum; free ones
  // stay as they are. Where that asks for more blocks than there are devices, the operand that is
  // smaller as a whole gives way; of two alike the right one, as XLA has it.
  Out Dot() {
    const auto& a = i_.attr<DotAttributes>();
    const bool left_first = i_.operand(0)->shape().byte_size() >= i_.operand(1)->shape().byte_size();
    const std::size_t keep = left_first ? 0 : 1, give = 1 - keep;
    const Dims* contracting[2] = {&a.lhs_contracting, &a.rhs_contracting};
    const Dims* batch[2] = {&a.lhs_batch, &a.rhs_batch};
    Splits dims[2] = {WholeDims(i_.operand(0)->shape().rank()), WholeDims(i_.operand(1)->shape().rank())};
    const std::size_t batches = a.lhs_batch.size();
    // What comes out, and after it the contracted dimensions: together they have to cover the
    // devices.
    auto position = [&](std::size_t side, std::size_t d) -> std::optional<std::size_t> {
      auto in = [&](const Dims& list) { return std::ranges::find(list, static_cast<int64_t>(d)) - list.begin(); };
      if (auto n = in(*batch[side]); n < batch[side]->ssize()) return static_cast<std::size_t>(n);
      if (auto n = in(*contracting[side]); n < contracting[side]->ssize()) return At(i_.shape().rank() + n);
      std::size_t out = batches;
      if (side == 1) out += dims[0].size() - batches - a.lhs_contracting.size();
      for (std::size_t e = 0; e < d; ++e)
        if (in_neither(*batch[side], *contracting[side], e)) ++out;
      return out;
    };
    Splits all = WholeDims(i_.shape().rank() + a.lhs_contracting.ssize());
    for (std::size_t side : {keep, give})
      for (std::size_t d = 0; d < dims[side].size(); ++d) {
        const Split& split = operands_[side].dims[d];
        Split& place = all[*position(side, d)];
        if (split.whole() || !place.whole()) continue;
        place = split;
        if (!MayCut(all)) place = Split();
      }
    if (!AnyCut(all)) return std::nullopt;
    const ElementType type = i_.shape().element_type();
    Split along;
    for (std::size_t n = At(i_.shape().rank()); n < all.size(); ++n) {
      // Sums of logical values are no sums of numbers.
      if (type == ElementType::kPred) all[n] = Split();
      along = Combine(along, all[n]);
    }
    std::vector<Instruction*> made(2);
    for (std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      for (std::size_t d = 0; d < dims[side].size(); ++d) dims[side][d] = all[*position(side, d)];
      KRAFLA_ASSIGN(made[side], Operand(side, dims[side]));
    }
    all.resize(At(i_.shape().rank()));
    return WithSum(Finish(std::move(made), std::move(all)), along);
  }
  static bool in_neither(const Dims& a, const Dims& b, std::size_t d) {
    return std::ranges::find(a, static_cast<int64_t>(d)) == a.end() &&
           std::ranges::find(b, static_cast<int64_t>(d)) == b.end();
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
    KRAFLA_ASSIGN(Instruction * x, Operand(0, input));
    KRAFLA_ASSIGN(Instruction * k, Operand(1, kernel));
    return WithSum(Finish({x, k}, std::move(out)), all[2]);
  }

  Out Concatenate() {
    std::vector<std::size_t> arrays(operands_.size());
    std::iota(arrays.begin(), arrays.end(), std::size_t{0});
    Splits dims = Common(arrays);
    dims[At(i_.attr<DimensionsAttributes>().dimensions[0])] = Split();
    if (!AnyCut(dims)) return std::nullopt;
    std::vector<Instruction*> made;
    for (std::size_t o : arrays) {
      KRAFLA_ASSIGN(Instruction * one, Operand(o, dims));
      made.push_back(one);
    }
    return Finish(std::move(made), std::move(dims));
  }

  // Rows of a table: the indices may be cut, and with them what comes out; of the table only
  // dimensions that are taken whole, or that go along with the indices.
  Out GatherByIndices() {
    GatherAttributes a = i_.attr<GatherAttributes>();
    const Shape& table = i_.operand(0)->shape();
    const Shape& indices = i_.operand(1)->shape();
    Splits all = WholeDims(i_.shape().rank()), of_table = WholeDims(table.rank()),
           of_indices = WholeDims(indices.rank());
    auto place = [&](Split& slot, const Split& split) {
      if (!slot.whole()) return;
      slot = split;
      if (!MayCut(all)) slot = Split();
    };
    std::vector<int64_t> batch_out, batch_in;
    for (int64_t d = 0; d < i_.shape().rank(); ++d)
      if (std::ranges::find(a.offset_dims, d) == a.offset_dims.end()) batch_out.push_back(d);
    for (int64_t d = 0; d < indices.rank(); ++d)
      if (d != a.index_vector_dim) batch_in.push_back(d);
    if (batch_out.size() != batch_in.size()) return std::nullopt;
    for (std::size_t n = 0; n < batch_in.size(); ++n) {
      place(all[At(batch_out[n])], operands_[1].dims[At(batch_in[n])]);
      // Along a batch dimension the table may be what is cut.
      auto it = std::ranges::find(a.start_indices_batching_dims, batch_in[n]);
      if (it != a.start_indices_batching_dims.end())
        place(all[At(batch_out[n])],
              operands_[0].dims[At(
                  a.operand_batching_dims[static_cast<std::size_t>(it - a.start_indices_batching_dims.begin())])]);
      of_indices[At(batch_in[n])] = all[At(batch_out[n])];
      if (it != a.start_indices_batching_dims.end())
        of_table[At(a.operand_batching_dims[static_cast<std::size_t>(it - a.start_indices_batching_dims.begin())])] =
            all[At(batch_out[n])];
    }
    std::size_t offset = 0;
    for (int64_t d = 0; d < table.rank(); ++d) {
      auto in = [&](const Dims& list) { return std::ranges::find(list, d) != list.end(); };
      if (in(a.collapsed_slice_dims) || in(a.operand_batching_dims)) continue;
      const auto out = At(a.offset_dims[offset++]);
      if (a.slice_sizes[At(d)] != table.dim(d) || in(a.start_index_map)) continue;
      place(all[out], operands_[0].dims[At(d)]);
      of_table[At(d)] = all[out];
      a.slice_sizes[At(d)] /= all[out].count;
    }
    if (!AnyCut(all)) return std::nullopt;
    KRAFLA_ASSIGN(Instruction * t, Operand(0, of_table));
    KRAFLA_ASSIGN(Instruction * n, Operand(1, of_indices));
    KRAFLA_ASSIGN(std::optional<Value> out, Finish({t, n}, std::move(all)));
    out->local->set_attributes(std::move(a));
    return out;
  }

  // The array may be cut along batch dimensions and along those that updates fill; updates of a sum
  // also where the indices are, which leaves parts of a sum.
  Out Scatter() {
    const auto& a = i_.attr<ScatterAttributes>();
    if (operands_.size() != 3) return std::nullopt;
    const Shape& array = i_.operand(0)->shape();
    const Shape& indices = i_.operand(1)->shape();
    const Shape& updates = i_.operand(2)->shape();
    const int64_t rank = array.rank();
    const bool sums = AddsTwo(*i_.called(0)) && IsNumber(array.element_type());
    auto in = [](const Dims& list, int64_t d) { return std::ranges::find(list, d) != list.end(); };
    Splits all = WholeDims(rank), of_indices = WholeDims(indices.rank()), of_updates = WholeDims(updates.rank());
    auto place = [&](std::size_t slot, const Split& split) {
      if (!all[slot].whole()) return;
      all[slot] = split;
      if (!MayCut(all)) all[slot] = Split();
    };
    std::vector<int64_t> batch_in, batch_up;
    for (int64_t d = 0; d < indices.rank(); ++d)
      if (d != a.index_vector_dim) batch_in.push_back(d);
    for (int64_t d = 0; d < updates.rank(); ++d)
      if (!in(a.update_window_dims, d)) batch_up.push_back(d);
    if (batch_in.size() != batch_up.size()) return std::nullopt;
    for (std::size_t n = 0; n < batch_in.size(); ++n) {
      auto it = std::ranges::find(a.scatter_indices_batching_dims, batch_in[n]);
      std::size_t slot = all.size();
      if (it != a.scatter_indices_batching_dims.end()) {
        slot = At(a.input_batching_dims[static_cast<std::size_t>(it - a.scatter_indices_batching_dims.begin())]);
        place(slot, operands_[0].dims[slot]);
      } else {
        if (!sums) continue;
        all.emplace_back();
      }
      place(slot, operands_[2].dims[At(batch_up[n])]);
      place(slot, operands_[1].dims[At(batch_in[n])]);
      of_indices[At(batch_in[n])] = of_updates[At(batch_up[n])] = all[slot];
    }
    std::size_t window = 0;
    for (int64_t d = 0; d < rank; ++d) {
      if (in(a.inserted_window_dims, d) || in(a.input_batching_dims, d)) continue;
      const auto u = At(a.update_window_dims[window++]);
      if (in(a.scatter_dims_to_operand_dims, d) || updates.dims()[u] != array.dim(d)) continue;
      place(At(d), operands_[0].dims[At(d)]);
      place(At(d), operands_[2].dims[u]);
      of_updates[u] = all[At(d)];
    }
    if (!AnyCut(all)) return std::nullopt;
    Split along;
    for (std::size_t n = At(rank); n < all.size(); ++n) along = Combine(along, all[n]);
    all.resize(At(rank));
    KRAFLA_ASSIGN(Instruction * x, Operand(0, all));
    KRAFLA_ASSIGN(Instruction * n, Operand(1, of_indices));
    KRAFLA_ASSIGN(Instruction * u, Operand(2, of_updates));
    if (along.whole()) return Finish({x, n, u}, std::move(all));
    // Each device adds to zeros; the array comes to the sum of all, or to the first part of it.
    Instruction* zero = AddScalarConstant(emitter_.out(), array.element_type(), 0);
    KRAFLA_ASSIGN(Instruction * zeros, AddBroadcastScalar(emitter_.out(), zero, x->shape().dims()));
    KRAFLA_ASSIGN(std::optional<Value> out, WithSum(Finish({zeros, n, u}, std::move(all)), along));
    if (!out->unreduced.empty()) {
      Value start = *out;
      start.local = x;
      KRAFLA_ASSIGN(start, emitter_.Unsettle(std::move(start), parts_));
      x = start.local;
    }
    KRAFLA_ASSIGN(out->local, emitter_.Infer(Opcode::kAdd, {x, out->local}));
    return out;
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

  // Operations that leave some dimensions alone: those may be cut, in all arrays alike.
  Out Along() {
    std::vector<std::size_t> arrays;
    std::vector<bool> alone(operands_.empty() ? 0 : operands_[0].dims.size(), true);
    Attributes attributes = i_.attributes();
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
        alone[At(d)] = s.starts[At(d)] == 0 && s.limits[At(d)] == shape->dim(d) && s.strides[At(d)] == 1;
    } else if (op == Opcode::kPad) {
      first(1);
      const auto& p = i_.attr<PadAttributes>();
      for (std::size_t d = 0; d < alone.size(); ++d) alone[d] = p.low[d] == 0 && p.high[d] == 0 && p.interior[d] == 0;
    } else if (op == Opcode::kReverse) {
      first(1);
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
      for (std::size_t d = 0; d < alone.size(); ++d) alone[d] = window[d] == WindowDim();
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
    for (std::size_t d = 0; d < dims.size(); ++d)
      if (!alone[d]) dims[d] = Split();
    if (!AnyCut(dims)) return std::nullopt;
    if (auto* s = std::get_if<SliceAttributes>(&attributes))
      for (std::size_t d = 0; d < dims.size(); ++d) s->limits[d] /= dims[d].count;
    if (auto* s = std::get_if<DynamicSliceAttributes>(&attributes))
      for (std::size_t d = 0; d < dims.size(); ++d) s->slice_sizes[d] /= dims[d].count;
    std::vector<Instruction*> made;
    for (std::size_t o = 0; o < operands_.size(); ++o) {
      KRAFLA_ASSIGN(Instruction * one, o < arrays.size() ? Operand(o, dims) : WholeOperand(o));
      made.push_back(one);
    }
    KRAFLA_ASSIGN(std::optional<Value> out, Finish(std::move(made), std::move(dims)));
    if (!out->is_tuple) out->local->set_attributes(std::move(attributes));
    // Each block is turned round where it lies; the first of them is the last now.
    if (op == Opcode::kReverse)
      for (int64_t d : i_.attr<DimensionsAttributes>().dimensions)
        for (int32_t& block : out->dims[At(d)].block) block = static_cast<int32_t>(out->dims[At(d)].count) - 1 - block;
    return out;
  }

  const Instruction& i_;
  std::vector<Value> operands_;
  const Region* region_;
  const std::vector<Split>& parts_;  // along which a sum is wanted in parts
  Emitter& emitter_;
  int64_t devices_;
};

}  // namespace

Result<std::optional<Value>> DoByBlocks(const Instruction& instruction, std::span<const Value> operands,
                                        const Region* region, const std::vector<Split>& parts, Emitter& emitter) {
  bool any = false;
  for (const Value& v : operands) {
    if (!v.IsArray() || v.local->shape().IsDynamic()) return std::nullopt;
    any |= !v.IsWhole();
  }
  if (!any || instruction.shape().IsDynamic()) return std::nullopt;
  if (instruction.opcode() == Opcode::kGather) {
    KRAFLA_ASSIGN(std::optional<Value> rows, LookUpInBlocks(instruction, operands, region, emitter));
    if (rows) return rows;
  }
  if (instruction.opcode() == Opcode::kConvolution || instruction.opcode() == Opcode::kReduceWindow) {
    KRAFLA_ASSIGN(std::optional<Value> windows, WindowsInBlocks(instruction, operands, region, emitter));
    if (windows) return windows;
  }
  return Rule(instruction, operands, region, parts, emitter).Apply();
}

}  // namespace krafla::spmd
