// SPDX-License-Identifier: Apache-2.0
// Gathers and scatters by blocks, of tables and of indices.
#include <algorithm>

#include "base/index.h"
#include "ir/builder.h"
#include "passes/spmd/spmd_parts.h"
#include "passes/spmd/spmd_rule.h"

namespace krafla::spmd {
namespace {

class IndexedRule : public Rule {
 public:
  using Rule::Rule;

  // Rows of a table: the indices may be cut, and with them what comes out; of the table only
  // dimensions that are taken whole, or that go along with the indices.
  Out Gather() {
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
      KRAFLA_ASSIGN(start, emitter_.Unsettle(std::move(start), wishes_.parts));
      x = start.local;
    }
    KRAFLA_ASSIGN(out->local, emitter_.Infer(Opcode::kAdd, {x, out->local}));
    return out;
  }
};

}  // namespace

Result<std::optional<Value>> GatherInBlocks(const Instruction& instruction, std::span<const Value> operands,
                                            const Region* region, const Wishes& wishes, Emitter& emitter) {
  KRAFLA_ASSIGN(std::optional<Value> rows, LookUpInBlocks(instruction, operands, region, emitter));
  if (rows) return rows;
  return IndexedRule(instruction, operands, region, wishes, emitter).Gather();
}

Result<std::optional<Value>> ScatterInBlocks(const Instruction& instruction, std::span<const Value> operands,
                                             const Region* region, const Wishes& wishes, Emitter& emitter) {
  return IndexedRule(instruction, operands, region, wishes, emitter).Scatter();
}

}  // namespace krafla::spmd
