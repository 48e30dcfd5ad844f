// SPDX-License-Identifier: Apache-2.0
// Rows of a table that is cut along the dimension in which they are looked up, as the vocabulary of a language model
// is: each device looks up those that it has and gives zeros for the others, and the devices' results are put over one
// another (XLA: PartitionGatherTrivialSlicedOperandDimensions, xla/service/spmd/gather_scatter_handler.cc). That is
// done bit by bit, so that minus zeros and NaNs come through as they are.
#include <algorithm>

#include "base/index.h"
#include "ir/builder.h"
#include "passes/spmd/spmd_rules.h"

namespace krafla::spmd {
namespace {

using Splits = std::vector<Split>;

std::optional<ElementType> BitsOf(ElementType type) {
  if (type == ElementType::kPred) return type;
  if (IsComplex(type)) return std::nullopt;
  switch (BitWidth(type)) {
    case 8: return ElementType::kU8;
    case 16: return ElementType::kU16;
    case 32: return ElementType::kU32;
    case 64: return ElementType::kU64;
    default: return std::nullopt;
  }
}

class BlockLookup {
 public:
  BlockLookup(const Instruction& gather, std::span<const Value> operands, const Region* region, Emitter& emitter)
      : i_(gather),
        a_(gather.attr<GatherAttributes>()),
        operands_(operands),
        region_(region),
        emitter_(emitter),
        devices_(gather.parent()->parent()->num_partitions) {}

  Result<std::optional<Value>> Make() {
    if (!Fits()) return std::nullopt;
    const auto d = At(a_.start_index_map[0]);
    const int64_t block = i_.operand(0)->shape().dim(a_.start_index_map[0]) / split_.count;
    Splits of_table = WholeDims(i_.operand(0)->shape().rank()), of_indices = WholeDims(i_.operand(1)->shape().rank());
    of_table[d] = split_;
    for (std::size_t n = 0; n < batch_in_.size(); ++n) of_indices[At(batch_in_[n])] = out_[At(batch_out_[n])];
    KRAFLA_ASSIGN(const Value table, emitter_.Reshard(operands_[0], of_table));
    KRAFLA_ASSIGN(const Value indices, emitter_.Reshard(operands_[1], of_indices));
    KRAFLA_ASSIGN(Instruction * at, Positions(indices.local));
    KRAFLA_ASSIGN(Instruction * offset, emitter_.Offset(split_, block));
    KRAFLA_ASSIGN(offset, AddConvert(emitter_.out(), offset, at->shape().element_type()));
    KRAFLA_ASSIGN(offset, AddBroadcastScalar(emitter_.out(), offset, at->shape().dims()));
    KRAFLA_ASSIGN(Instruction * here, emitter_.Infer(Opcode::kSubtract, {at, offset}));
    KRAFLA_ASSIGN(Instruction * nearest, Clamped(here, block - 1));
    KRAFLA_ASSIGN(Instruction * found, emitter_.Infer(Opcode::kCompare, {here, nearest}, CompareAttributes{}));
    KRAFLA_ASSIGN(Shape shape, EvenBlock(i_.shape(), out_));
    Instruction* rows = emitter_.Clone(i_, std::move(shape), {table.local, nearest});
    Value out;
    KRAFLA_ASSIGN(out.local, Merged(rows, found));
    out.dims = out_;
    out.region = region_;
    return out;
  }

 private:
  // One dimension is looked up, a row at a time, and cut; the indices may be cut besides. And the rows are not more
  // than the table, which would be put together otherwise.
  bool Fits() {
    const Shape& table = i_.operand(0)->shape();
    if (a_.start_index_map.ssize() != 1 || !a_.operand_batching_dims.empty()) return false;
    const int64_t d = a_.start_index_map[0];
    split_ = operands_[0].dims[At(d)];
    if (split_.whole() || a_.slice_sizes[At(d)] != 1 || table.dim(d) % split_.count != 0 ||
        std::ranges::find(a_.collapsed_slice_dims, d) == a_.collapsed_slice_dims.end() ||
        !BitsOf(table.element_type()) || 2 * i_.shape().byte_size() > table.byte_size())
      return false;
    const int64_t rank = i_.operand(1)->shape().rank();
    for (int64_t o = 0; o < i_.shape().rank(); ++o)
      if (std::ranges::find(a_.offset_dims, o) == a_.offset_dims.end()) batch_out_.push_back(o);
    for (int64_t n = 0; n < rank; ++n)
      if (n != a_.index_vector_dim) batch_in_.push_back(n);
    if (batch_in_.size() != batch_out_.size()) return false;
    out_ = WholeDims(i_.shape().rank());
    for (std::size_t n = 0; n < batch_in_.size(); ++n) {
      Split& place = out_[At(batch_out_[n])];
      place = operands_[1].dims[At(batch_in_[n])];
      const Split own[] = {split_};
      if (!Covers(Together(out_, own), region_, devices_)) place = Split();
    }
    const Split own[] = {split_};
    return Covers(own, region_, devices_);
  }

  Result<Instruction*> Limits(Instruction* like, double value) {
    Instruction* one = AddScalarConstant(emitter_.out(), like->shape().element_type(), value);
    return AddBroadcastScalar(emitter_.out(), one, like->shape().dims());
  }
  Result<Instruction*> Clamped(Instruction* value, int64_t most) {
    KRAFLA_ASSIGN(Instruction * low, Limits(value, 0));
    KRAFLA_ASSIGN(Instruction * high, Limits(value, static_cast<double>(most)));
    return emitter_.Infer(Opcode::kClamp, {low, value, high});
  }

  // Where the rows are in the whole table; an index past its ends is the nearest one's.
  Result<Instruction*> Positions(Instruction* indices) {
    const int64_t most = i_.operand(0)->shape().dim(a_.start_index_map[0]) - 1;
    const ElementType type = indices->shape().element_type();
    // What does not fit a signed type is past the end.
    if (!IsSigned(type) && BitWidth(type) >= 32) {
      KRAFLA_ASSIGN(Instruction * high, Limits(indices, static_cast<double>(most)));
      KRAFLA_ASSIGN(indices, emitter_.Infer(Opcode::kMinimum, {indices, high}));
    }
    const bool is_wide = BitWidth(type) == 64;
    KRAFLA_ASSIGN(indices, AddConvert(emitter_.out(), indices, is_wide ? ElementType::kS64 : ElementType::kS32));
    return Clamped(indices, most);
  }

  // Each device's own rows, and those of the others: by an all-reduce of bits.
  Result<Instruction*> Merged(Instruction* rows, Instruction* found) {
    Dims batch;
    for (const int64_t o : batch_out_) batch.push_back(rows->shape().dim(o));
    KRAFLA_ASSIGN(found, AddReshape(emitter_.out(), found, batch));
    Dims mapped;
    for (const int64_t o : batch_out_) mapped.push_back(o);
    KRAFLA_ASSIGN(found, AddBroadcast(emitter_.out(), found, rows->shape().dims(), std::move(mapped)));
    const ElementType type = rows->shape().element_type(), bits = *BitsOf(type);
    if (bits != type) { KRAFLA_ASSIGN(rows, AsType(rows, bits)); }
    KRAFLA_ASSIGN(Instruction * nothing, Limits(rows, 0));
    KRAFLA_ASSIGN(rows, emitter_.Infer(Opcode::kSelect, {found, rows, nothing}));
    Computation* either = AddBinaryComputation(*emitter_.out().parent(), Opcode::kOr, Shape::MakeScalar(bits));
    KRAFLA_ASSIGN(rows, emitter_.Sum(rows, split_, out_, region_, either));
    return bits == type ? rows : AsType(rows, type);
  }
  Result<Instruction*> AsType(Instruction* value, ElementType type) {
    KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(type, value->shape().dims()));
    return emitter_.out().Add(Opcode::kBitcastConvert, std::move(shape), {value});
  }

  const Instruction& i_;
  const GatherAttributes& a_;
  std::span<const Value> operands_;
  const Region* region_;
  Emitter& emitter_;
  const int64_t devices_;
  Split split_;
  Splits out_;  // of the result
  std::vector<int64_t> batch_out_, batch_in_;
};

}  // namespace

Result<std::optional<Value>> LookUpInBlocks(const Instruction& gather, std::span<const Value> operands,
                                            const Region* region, Emitter& emitter) {
  return BlockLookup(gather, operands, region, emitter).Make();
}

}  // namespace krafla::spmd
