// SPDX-License-Identifier: Apache-2.0
// Slices at positions that are known at run time, read from and written to a dimension that is cut: a cache of keys and
// values whose positions are spread over devices is not put together to write one of them. Each device reads or writes
// as many rows of its block as the slice has, where they would be, and leaves those alone that are not its own.
#include <algorithm>

#include "base/index.h"
#include "ir/builder.h"
#include "passes/spmd/spmd_positions.h"
#include "passes/spmd/spmd_rule.h"

namespace krafla::spmd {
namespace {

class DynamicSliceRule : public Rule {
 public:
  using Rule::Rule;

  // Nothing where all that is cut is left alone: Along does that.
  Out Update() {
    if (operands_.size() != operands_[0].dims.size() + 2) return std::nullopt;
    const Shape &array = i_.operand(0)->shape(), &update = i_.operand(1)->shape();
    Splits dims = operands_[0].dims, of_update(dims.size());
    bool any = false;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const bool alone = array.dims()[d] == update.dims()[d];
      any |= !alone && !dims[d].whole();
      if (!alone) continue;
      Splits more(dims.size());
      more[d] = operands_[1].dims[d];
      Join(dims, more);
      of_update[d] = dims[d];
    }
    if (!any) return std::nullopt;
    KRAFLA_ASSIGN(Instruction * block, Operand(0, dims));
    KRAFLA_ASSIGN(Instruction * rows, Operand(1, of_update));
    std::vector<Instruction*> starts, within;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const int64_t size = update.dims()[d];
      KRAFLA_ASSIGN(Instruction * start, Start(d, size));
      if (dims[d].whole() || size == array.dims()[d]) {
        starts.push_back(start);
        within.push_back(nullptr);
        continue;
      }
      const int64_t window = std::min(size, block->shape().dims()[d]);
      KRAFLA_ASSIGN(const Place place, PlaceOf(start, dims[d], block->shape().dims()[d], window));
      // Row r of the window is row r + nearest - own of the slice.
      KRAFLA_ASSIGN(Instruction * behind, emitter_.Infer(Opcode::kSubtract, {place.nearest, place.own}));
      KRAFLA_ASSIGN(rows, Shifted(rows, d, behind, window));
      KRAFLA_ASSIGN(Instruction * known, Within(behind, window, size));
      starts.push_back(place.nearest);
      within.push_back(known);
    }
    KRAFLA_ASSIGN(Instruction * mask, AllOf(within, rows->shape().dims()));
    std::vector<Instruction*> read{block};
    read.insert(read.end(), starts.begin(), starts.end());
    KRAFLA_ASSIGN(Instruction * old,
                  emitter_.Infer(Opcode::kDynamicSlice, std::move(read), DynamicSliceAttributes{rows->shape().dims()}));
    KRAFLA_ASSIGN(rows, emitter_.Infer(Opcode::kSelect, {mask, rows, old}));
    std::vector<Instruction*> written{block, rows};
    written.insert(written.end(), starts.begin(), starts.end());
    return Finish(std::move(written), std::move(dims));
  }

  // Where the rows are less than what would be put together for them.
  Out Slice() {
    if (operands_.size() != operands_[0].dims.size() + 1) return std::nullopt;
    const Shape& array = i_.operand(0)->shape();
    const Dims& sizes = i_.attr<DynamicSliceAttributes>().slice_sizes;
    Splits dims = operands_[0].dims;
    std::optional<std::size_t> cut;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (dims[d].whole() || sizes[d] == array.dims()[d]) continue;
      if (cut) return std::nullopt;
      cut = d;
    }
    if (!cut || 2 * sizes[*cut] > array.dims()[*cut] || !BitsOf(array.element_type())) return std::nullopt;
    Instruction* block = operands_[0].local;
    std::vector<Instruction*> read{block};
    Dims window = block->shape().dims();
    Instruction *before = nullptr, *found = nullptr;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      KRAFLA_ASSIGN(Instruction * start, Start(d, sizes[d]));
      if (d != *cut) {
        if (dims[d].whole()) window[d] = sizes[d];
        read.push_back(start);
        continue;
      }
      window[d] = std::min(sizes[d], block->shape().dims()[d]);
      KRAFLA_ASSIGN(const Place place, PlaceOf(start, dims[d], block->shape().dims()[d], window[d]));
      KRAFLA_ASSIGN(before, emitter_.Infer(Opcode::kSubtract, {place.own, place.nearest}));
      KRAFLA_ASSIGN(found, Within(before, sizes[d], window[d]));
      read.push_back(place.nearest);
    }
    KRAFLA_ASSIGN(Instruction * rows,
                  emitter_.Infer(Opcode::kDynamicSlice, std::move(read), DynamicSliceAttributes{window}));
    KRAFLA_ASSIGN(rows, Shifted(rows, *cut, before, sizes[*cut]));
    std::vector<Instruction*> within(dims.size(), nullptr);
    within[*cut] = found;
    KRAFLA_ASSIGN(Instruction * mask, AllOf(within, rows->shape().dims()));
    const Split along = dims[*cut];
    dims[*cut] = Split();
    KRAFLA_ASSIGN(rows, MergedBits(emitter_, rows, mask, along, dims, region_));
    return Made(rows, std::move(dims));
  }

 private:
  // Where a slice begins in a device's block, which may be outside of it, and the nearest place where a window fits.
  struct Place {
    Instruction *own, *nearest;
  };
  Result<Place> PlaceOf(Instruction* start, const Split& split, int64_t block, int64_t window) {
    KRAFLA_ASSIGN(Instruction * offset, emitter_.Offset(split, block));
    KRAFLA_ASSIGN(Instruction * own, emitter_.Infer(Opcode::kSubtract, {start, offset}));
    KRAFLA_ASSIGN(Instruction * nearest, Clamped(emitter_, own, 0, block - window));
    return Place{own, nearest};
  }

  // Where a slice of `size` begins along a dimension of the whole array, an s32.
  Result<Instruction*> Start(std::size_t d, int64_t size) {
    const int64_t most = i_.operand(0)->shape().dims()[d] - size;
    const std::size_t first = operands_.size() - operands_[0].dims.size();
    if (most == 0) return AddScalarConstant(emitter_.out(), ElementType::kS32, 0);
    KRAFLA_ASSIGN(Instruction * start, WholeOperand(first + d));
    KRAFLA_ASSIGN(start, ClampedPositions(emitter_, start, most));
    return AddConvert(emitter_.out(), start, ElementType::kS32);
  }

  // Rows [by, by + size) along a dimension; what is outside of it is anything.
  Result<Instruction*> Shifted(Instruction* rows, std::size_t d, Instruction* by, int64_t size) {
    const Dims& dims = rows->shape().dims();
    if (dims[d] == 1 && size == 1) return rows;
    KRAFLA_ASSIGN(Instruction * padded, emitter_.Pad(rows, d, size, size));
    Instruction* start = AddScalarConstant(emitter_.out(), ElementType::kS32, static_cast<double>(size));
    KRAFLA_ASSIGN(start, emitter_.Infer(Opcode::kAdd, {by, start}));
    return emitter_.RowsFrom(padded, d, start, size);
  }

  // Of `count` rows from `by` on, which are among `size`.
  Result<Instruction*> Within(Instruction* by, int64_t count, int64_t size) {
    KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(ElementType::kS32, Dims{count}));
    Instruction* row = emitter_.out().Add(Opcode::kIota, std::move(shape), {}, IotaAttributes{0});
    KRAFLA_ASSIGN(Instruction * first, AddBroadcastScalar(emitter_.out(), by, Dims{count}));
    KRAFLA_ASSIGN(row, emitter_.Infer(Opcode::kAdd, {row, first}));
    return IsWithin(emitter_, row, size);
  }

  // What is so along all dimensions that say something, each a line of logical values.
  Result<Instruction*> AllOf(const std::vector<Instruction*>& lines, const Dims& dims) {
    Instruction* out = nullptr;
    for (std::size_t d = 0; d < lines.size(); ++d) {
      if (lines[d] == nullptr) continue;
      KRAFLA_ASSIGN(Instruction * one, AddBroadcast(emitter_.out(), lines[d], dims, Dims{static_cast<int64_t>(d)}));
      if (out != nullptr) { KRAFLA_ASSIGN(one, emitter_.Infer(Opcode::kAnd, {out, one})); }
      out = one;
    }
    return out;
  }
};

}  // namespace

Result<std::optional<Value>> DynamicSliceInBlocks(const Instruction& instruction, std::span<const Value> operands,
                                                  const Region* region, const Wishes& wishes, Emitter& emitter) {
  DynamicSliceRule rule(instruction, operands, region, wishes, emitter);
  return instruction.opcode() == Opcode::kDynamicSlice ? rule.Slice() : rule.Update();
}

}  // namespace krafla::spmd
