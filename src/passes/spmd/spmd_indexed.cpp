// SPDX-License-Identifier: Apache-2.0
// Gathers and scatters by blocks. Indices may be cut, and what comes out or goes in with them; so may dimensions of the
// table that are taken whole, or go along with the indices. Along one dimension in which rows are looked up, as in a
// language model's vocabulary, the table may be cut too: each device looks up the rows that it has, and the devices'
// results are put over one another (XLA: PartitionGatherTrivialSlicedOperandDimensions,
// xla/service/spmd/gather_scatter_handler.cc); or it writes those that it has, and drops the others.
#include <algorithm>

#include "base/index.h"
#include "ir/builder.h"
#include "passes/spmd/spmd_parts.h"
#include "passes/spmd/spmd_positions.h"
#include "passes/spmd/spmd_rule.h"

namespace krafla::spmd {
namespace {

// Dimensions of indices that count them.
Dims BatchOf(int64_t rank, int64_t index_vector_dim) {
  Dims out;
  for (int64_t d = 0; d < rank; ++d)
    if (d != index_vector_dim) out.push_back(d);
  return out;
}
Dims Without(int64_t rank, const Dims& list) {
  Dims out;
  for (int64_t d = 0; d < rank; ++d)
    if (!Holds(list, d)) out.push_back(d);
  return out;
}

class IndexedRule : public Rule {
 public:
  IndexedRule(const Instruction& instruction, std::span<const Value> operands, const Region* region,
              const Wishes& wishes, Emitter& emitter)
      : Rule(instruction, operands, region, wishes, emitter),
        table_(i_.operand(0)->shape()),
        indices_(i_.operand(1)->shape()) {}

  Out Gather() {
    GatherAttributes a = i_.attr<GatherAttributes>();
    const Dims batch_out = Without(i_.shape().rank(), a.offset_dims),
               batch_in = BatchOf(indices_.rank(), a.index_vector_dim);
    if (batch_out.size() != batch_in.size()) return std::nullopt;
    if (2 * i_.shape().byte_size() <= table_.byte_size() && BitsOf(table_.element_type()))
      FindLookUp(a.start_index_map, a.collapsed_slice_dims, a.index_vector_dim);
    if (looked_up_ && a.slice_sizes[*looked_up_] != 1) looked_up_.reset();
    Splits all = WholeDims(i_.shape().rank()), of_table = WholeDims(table_.rank()),
           of_indices = WholeDims(indices_.rank());
    const Splits own = looked_up_ ? Splits{operands_[0].dims[*looked_up_]} : Splits();
    const auto place = [&](Split& slot, const Split& split) {
      if (!slot.whole()) return;
      slot = split;
      if (!MayCut(Together(all, own))) slot = Split();
    };
    if (looked_up_) of_table[*looked_up_] = own[0];
    for (std::size_t n = 0; n < batch_in.size(); ++n) {
      Split& out = all[At(batch_out[n])];
      place(out, operands_[1].dims[At(batch_in[n])]);
      // Along a batch dimension the table may be what is cut.
      const auto it = std::ranges::find(a.start_indices_batching_dims, batch_in[n]);
      if (it != a.start_indices_batching_dims.end()) {
        const auto t =
            At(a.operand_batching_dims[static_cast<std::size_t>(it - a.start_indices_batching_dims.begin())]);
        place(out, operands_[0].dims[t]);
        of_table[t] = out;
      }
      of_indices[At(batch_in[n])] = out;
    }
    std::size_t offset = 0;
    for (int64_t d = 0; d < table_.rank(); ++d) {
      if (Holds(a.collapsed_slice_dims, d) || Holds(a.operand_batching_dims, d)) continue;
      const auto out = At(a.offset_dims[offset++]);
      if (a.slice_sizes[At(d)] != table_.dim(d) || Holds(a.start_index_map, d)) continue;
      place(all[out], operands_[0].dims[At(d)]);
      of_table[At(d)] = all[out];
      a.slice_sizes[At(d)] = BlockSize(a.slice_sizes[At(d)], all[out]);
    }
    if (!AnyCut(all) && !looked_up_) return std::nullopt;
    KRAFLA_ASSIGN(Instruction * t, Operand(0, of_table));
    KRAFLA_ASSIGN(Instruction * n, Operand(1, of_indices));
    Instruction* found = nullptr;
    if (looked_up_) { KRAFLA_ASSIGN(n, OwnRows(n, a.index_vector_dim, &found)); }
    KRAFLA_ASSIGN(std::optional<Value> out, Finish({t, n}, std::move(all)));
    out->local->set_attributes(std::move(a));
    if (!looked_up_) return out;
    const Dims& dims = out->local->shape().dims();
    KRAFLA_ASSIGN(found, AddBroadcast(emitter_.out(), found, dims, Dims(batch_out)));
    KRAFLA_ASSIGN(out->local, MergedBits(emitter_, out->local, found, own[0], out->dims, region_));
    return out;
  }

  // The array may be cut along batch dimensions, along those that updates fill, and where each device has its own rows;
  // updates of a sum also where the indices are, which leaves parts of a sum.
  Out Scatter() {
    const auto& a = i_.attr<ScatterAttributes>();
    if (operands_.size() != 3) return std::nullopt;
    const Shape& updates = i_.operand(2)->shape();
    const int64_t rank = table_.rank();
    const bool sums = AddsTwo(*i_.called(0)) && IsNumber(table_.element_type());
    if (operands_[0].IsWhole() && !wishes_.cut.empty() && MayCut(wishes_.cut)) {
      KRAFLA_ASSIGN(operands_[0], emitter_.Reshard(std::move(operands_[0]), wishes_.cut));
    }
    // All updates go to all devices where they are less than the array, which would be added up.
    double bytes = 0;
    for (const std::size_t o : {std::size_t{1}, std::size_t{2}})
      if (!emitter_.IsMadeOfNothing(operands_[o].local))
        bytes += ReshardBytes(operands_[o], Splits(operands_[o].dims.size()), devices_);
    if (bytes <= static_cast<double>(table_.byte_size()))
      FindLookUp(a.scatter_dims_to_operand_dims, a.inserted_window_dims, a.index_vector_dim);
    const bool adds_parts = sums && !looked_up_;
    Splits all = WholeDims(rank), of_indices = WholeDims(indices_.rank()), of_updates = WholeDims(updates.rank());
    if (looked_up_) all[*looked_up_] = operands_[0].dims[*looked_up_];
    const auto place = [&](std::size_t slot, const Split& split) {
      if (!all[slot].whole()) return;
      all[slot] = split;
      if (!MayCut(all)) all[slot] = Split();
    };
    const Dims batch_in = BatchOf(indices_.rank(), a.index_vector_dim),
               batch_up = Without(updates.rank(), a.update_window_dims);
    if (batch_in.size() != batch_up.size()) return std::nullopt;
    std::vector<std::size_t> of_parts;  // dimensions of the indices
    for (std::size_t n = 0; n < batch_in.size(); ++n) {
      const auto it = std::ranges::find(a.scatter_indices_batching_dims, batch_in[n]);
      std::size_t slot = all.size();
      if (it != a.scatter_indices_batching_dims.end()) {
        slot = At(a.input_batching_dims[static_cast<std::size_t>(it - a.scatter_indices_batching_dims.begin())]);
        place(slot, operands_[0].dims[slot]);
      } else {
        if (!adds_parts) continue;
        all.emplace_back();
        of_parts.push_back(At(batch_in[n]));
      }
      place(slot, operands_[2].dims[At(batch_up[n])]);
      place(slot, operands_[1].dims[At(batch_in[n])]);
      of_indices[At(batch_in[n])] = of_updates[At(batch_up[n])] = all[slot];
    }
    std::size_t window = 0;
    for (int64_t d = 0; d < rank; ++d) {
      if (Holds(a.inserted_window_dims, d) || Holds(a.input_batching_dims, d)) continue;
      const auto u = At(a.update_window_dims[window++]);
      if (Holds(a.scatter_dims_to_operand_dims, d) || updates.dims()[u] != table_.dim(d)) continue;
      place(At(d), operands_[0].dims[At(d)]);
      place(At(d), operands_[2].dims[u]);
      of_updates[u] = all[At(d)];
    }
    if (!AnyCut(all)) return std::nullopt;
    Split along;
    for (std::size_t n = At(rank); n < all.size(); ++n) along = Combine(along, all[n]);
    all.resize(At(rank));
    KRAFLA_ASSIGN(Instruction * n, IndicesOf(of_indices, of_parts));
    KRAFLA_ASSIGN(Instruction * u, Operand(2, of_updates));
    if (!along.whole()) return InParts(n, u, std::move(all), along);
    if (looked_up_) { KRAFLA_ASSIGN(n, OwnRows(n, a.index_vector_dim, nullptr)); }
    KRAFLA_ASSIGN(Instruction * x, Operand(0, all));
    return Finish({x, n, u}, std::move(all));
  }

 private:
  // The indices of a scatter; where there are none behind the ends of dimensions `which`, they are of no row.
  Result<Instruction*> IndicesOf(const Splits& dims, std::span<const std::size_t> which) {
    KRAFLA_ASSIGN(Value n, emitter_.Reshard(operands_[1], dims));
    if (std::ranges::none_of(which, [&](std::size_t d) { return n.IsPadded(d); })) return n.local;
    const ElementType type = indices_.element_type();
    const bool is_wide = BitWidth(type) == 64 || (BitWidth(type) == 32 && !IsSigned(type));
    KRAFLA_ASSIGN(n.local, AddConvert(emitter_.out(), n.local, is_wide ? ElementType::kS64 : ElementType::kS32));
    Instruction* none = AddScalarConstant(emitter_.out(), n.local->shape().element_type(), -1);
    KRAFLA_ASSIGN(n, emitter_.Masked(std::move(n), which, none));
    return n.local;
  }

  // Each device adds to zeros; the array comes to the sum of all, or to the first part of it.
  Out InParts(Instruction* indices, Instruction* updates, Splits dims, const Split& along) {
    KRAFLA_ASSIGN(const Shape block, BlockShape(table_, dims));
    Instruction* zero = AddScalarConstant(emitter_.out(), table_.element_type(), 0);
    KRAFLA_ASSIGN(Instruction * zeros, AddBroadcastScalar(emitter_.out(), zero, block.dims()));
    KRAFLA_ASSIGN(std::optional<Value> out, WithSum(Finish({zeros, indices, updates}, dims), along));
    if (out->unreduced.empty()) {
      // As the array is cut, each device needs its block of the sum alone.
      Join(dims, operands_[0].dims);
      KRAFLA_ASSIGN(*out, emitter_.Reshard(std::move(*out), dims));
    }
    KRAFLA_ASSIGN(Instruction * x, Operand(0, dims));
    if (!out->unreduced.empty()) {
      Value start = *out;
      start.local = x;
      KRAFLA_ASSIGN(start, emitter_.Unsettle(std::move(start), wishes_.parts));
      x = start.local;
    }
    KRAFLA_ASSIGN(out->local, emitter_.Infer(Opcode::kAdd, {x, out->local}));
    return out;
  }

  // The dimension of the table that is cut and in which single rows are looked up: the first.
  void FindLookUp(const Dims& map, const Dims& single, int64_t index_vector_dim) {
    const ElementType type = indices_.element_type();
    if (map.size() > 1 && !IsSigned(type) && BitWidth(type) >= 32) return;
    for (std::size_t n = 0; n < map.size(); ++n) {
      const Split& split = operands_[0].dims[At(map[n])];
      if (split.whole() || !Holds(single, map[n]) || !MayCut(std::span(&split, 1))) continue;
      looked_up_ = At(map[n]);
      component_ = index_vector_dim == indices_.rank() ? std::nullopt : std::optional(static_cast<int64_t>(n));
      return;
    }
  }

  // Indices of the rows of a device's own block. For a gather the others are any row, and `found` says which they are;
  // for a scatter, where `found` is null, they are outside of the block.
  Result<Instruction*> OwnRows(Instruction* indices, int64_t vector_dim, Instruction** found) {
    const Split& split = operands_[0].dims[*looked_up_];
    const int64_t size = table_.dims()[*looked_up_], block = BlockSize(size, split);
    const bool is_wide = BitWidth(indices->shape().element_type()) == 64;
    const ElementType type = is_wide ? ElementType::kS64 : ElementType::kS32;
    const Dims& dims = indices->shape().dims();
    const auto part = [&](int64_t from, int64_t to) {
      SliceAttributes slice{Dims(dims.size(), 0), dims, Dims(dims.size(), 1)};
      slice.starts[At(vector_dim)] = from, slice.limits[At(vector_dim)] = to;
      return emitter_.Infer(Opcode::kSlice, {indices}, std::move(slice));
    };
    Instruction* at = indices;
    const int64_t count = component_ ? dims[At(vector_dim)] : 1;
    if (count > 1) { KRAFLA_ASSIGN(at, part(*component_, *component_ + 1)); }
    if (found != nullptr) { KRAFLA_ASSIGN(at, ClampedPositions(emitter_, at, size - 1)); }
    KRAFLA_ASSIGN(at, AddConvert(emitter_.out(), at, type));
    KRAFLA_ASSIGN(Instruction * offset, emitter_.Offset(split, block));
    KRAFLA_ASSIGN(offset, AddConvert(emitter_.out(), offset, type));
    KRAFLA_ASSIGN(offset, AddBroadcastScalar(emitter_.out(), offset, at->shape().dims()));
    KRAFLA_ASSIGN(at, emitter_.Infer(Opcode::kSubtract, {at, offset}));
    if (found != nullptr) {
      KRAFLA_ASSIGN(Instruction * is_own, IsWithin(emitter_, at, block));
      Dims batch;
      for (const int64_t d : BatchOf(dims.ssize(), vector_dim)) batch.push_back(dims[At(d)]);
      KRAFLA_ASSIGN(*found, AddReshape(emitter_.out(), is_own, batch));
      KRAFLA_ASSIGN(at, Clamped(emitter_, at, 0, block - 1));
    }
    if (count == 1) return at;
    KRAFLA_ASSIGN(indices, AddConvert(emitter_.out(), indices, type));
    std::vector<Instruction*> parts;
    if (*component_ > 0) {
      KRAFLA_ASSIGN(Instruction * before, part(0, *component_));
      parts.push_back(before);
    }
    parts.push_back(at);
    if (*component_ + 1 < count) {
      KRAFLA_ASSIGN(Instruction * behind, part(*component_ + 1, count));
      parts.push_back(behind);
    }
    return emitter_.Infer(Opcode::kConcatenate, std::move(parts), DimensionsAttributes{{vector_dim}});
  }

  const Shape &table_, &indices_;
  std::optional<std::size_t> looked_up_;
  std::optional<int64_t> component_;  // of an index; none where indices are scalars
};

}  // namespace

Result<std::optional<Value>> GatherInBlocks(const Instruction& instruction, std::span<const Value> operands,
                                            const Region* region, const Wishes& wishes, Emitter& emitter) {
  return IndexedRule(instruction, operands, region, wishes, emitter).Gather();
}

Result<std::optional<Value>> ScatterInBlocks(const Instruction& instruction, std::span<const Value> operands,
                                             const Region* region, const Wishes& wishes, Emitter& emitter) {
  return IndexedRule(instruction, operands, region, wishes, emitter).Scatter();
}

}  // namespace krafla::spmd
