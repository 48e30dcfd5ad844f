// SPDX-License-Identifier: Apache-2.0
// Boxes of an array that go to another place, along several dimensions of which some are cut: slices and pads that the
// pieces of spmd_moves.cpp, which are rows of one dimension, do not know, and scatters of one window at a place that is
// known (JAX's x.at[1:-1].add). Device by device rows go where they belong, one cut dimension after the other.
#include <algorithm>

#include "base/index.h"
#include "evaluator/evaluator.h"
#include "ir/builder.h"
#include "passes/spmd/spmd_rule.h"

namespace krafla::spmd {
namespace {

// The elements of a small array that depends on constants only; nothing where it does not, or is none of whole numbers.
std::optional<std::vector<int64_t>> KnownNumbers(const Instruction& i) {
  constexpr int64_t kMost = 64;
  const auto evaluated = [&](auto&& self, const Instruction& of, int depth) -> std::optional<Literal> {
    constexpr int kDeepest = 8;
    if (!of.shape().IsArray() || of.shape().IsDynamic() || of.shape().element_count() > kMost || depth > kDeepest)
      return std::nullopt;
    if (of.IsConstant()) return Literal(of.literal());
    if (!IsElementwise(of.opcode()) && of.opcode() != Opcode::kBroadcast && of.opcode() != Opcode::kReshape &&
        of.opcode() != Opcode::kConcatenate)
      return std::nullopt;
    std::vector<Literal> values;
    for (const Instruction* o : of.operands()) {
      std::optional<Literal> one = self(self, *o, depth + 1);
      if (!one) return std::nullopt;
      values.push_back(std::move(*one));
    }
    std::vector<const Literal*> operands;
    for (const Literal& v : values) operands.push_back(&v);
    auto made = EvaluateInstruction(of, operands);
    return made ? std::optional(std::move(*made)) : std::nullopt;
  };
  const std::optional<Literal> literal = evaluated(evaluated, i, 0);
  if (!literal) return std::nullopt;
  std::vector<int64_t> out;
  const auto take = [&](const auto& values) { out.assign(values.begin(), values.end()); };
  const ElementType type = literal->shape().element_type();
  if (type == ElementType::kS32) take(literal->data<int32_t>());
  else if (type == ElementType::kU32) take(literal->data<uint32_t>());
  else if (type == ElementType::kS64) take(literal->data<int64_t>());
  else return std::nullopt;
  return out;
}

// Elements [first, first + count) of an array become [at, at + count) of the result.
struct Box {
  Dims first, at, count;
};

class BoxRule : public Rule {
 public:
  using Rule::Rule;

  Out Slice() {
    SliceAttributes s = i_.attr<SliceAttributes>();
    const std::size_t rank = s.starts.size();
    Box box{s.starts, Dims(rank, 0), i_.shape().dims()};
    // Of blocks of a whole number of steps each device takes its own elements first.
    Value value = operands_[0];
    bool has_steps = false;
    for (std::size_t d = 0; d < rank; ++d) {
      const int64_t step = s.strides[d], block = value.local->shape().dims()[d];
      if (!value.dims[d].whole() && block % step != 0) return std::nullopt;
      has_steps |= step != 1;
      box.first[d] = s.starts[d] / step;
      s.starts[d] = step == 1 ? 0 : s.starts[d] % step;
      s.limits[d] = block;
    }
    if (has_steps) { KRAFLA_ASSIGN(value.local, emitter_.Infer(Opcode::kSlice, {value.local}, std::move(s))); }
    KRAFLA_ASSIGN(Instruction * moved, Moved(std::move(value), box));
    if (moved == nullptr) return std::nullopt;
    return Made(moved, operands_[0].dims);
  }

  Out Pad() {
    const auto& p = i_.attr<PadAttributes>();
    const Box box{Dims(p.low.size(), 0), p.low, i_.operand(0)->shape().dims()};
    for (std::size_t d = 0; d < p.low.size(); ++d)
      if (p.low[d] < 0 || p.high[d] < 0 || p.interior[d] != 0) return std::nullopt;
    KRAFLA_ASSIGN(Instruction * moved, Moved(operands_[0], box));
    if (moved == nullptr) return std::nullopt;
    KRAFLA_ASSIGN(Instruction * fill, WholeOperand(1));
    KRAFLA_ASSIGN(fill, AddBroadcastScalar(emitter_.out(), fill, moved->shape().dims()));
    KRAFLA_ASSIGN(Instruction * mask, Within(box, operands_[0].dims, moved->shape().dims()));
    KRAFLA_ASSIGN(moved, emitter_.Infer(Opcode::kSelect, {mask, moved, fill}));
    return Made(moved, operands_[0].dims);
  }

  Out Scatter() {
    const auto& a = i_.attr<ScatterAttributes>();
    const Shape &array = i_.operand(0)->shape(), &update = i_.operand(2)->shape();
    if (operands_.size() != 3 || !a.inserted_window_dims.empty() || !a.input_batching_dims.empty() ||
        i_.operand(1)->shape().element_count() != a.scatter_dims_to_operand_dims.ssize() ||
        update.rank() != array.rank() || a.update_window_dims.ssize() != array.rank())
      return std::nullopt;
    const std::optional<std::vector<int64_t>> starts = KnownNumbers(*i_.operand(1));
    if (!starts) return std::nullopt;
    Box box{Dims(update.dims().size(), 0), Dims(update.dims().size(), 0), update.dims()};
    for (std::size_t n = 0; n < starts->size(); ++n) box.at[At(a.scatter_dims_to_operand_dims[n])] = (*starts)[n];
    // A window that is not within the array is not written.
    for (std::size_t d = 0; d < box.at.size(); ++d)
      if (box.at[d] < 0 || box.at[d] > array.dims()[d] - box.count[d]) return std::nullopt;
    const std::vector<std::size_t> arrays{0, 2};
    const Splits dims = Common(arrays);
    if (!AnyCut(dims)) return std::nullopt;
    KRAFLA_ASSIGN(Value rows, emitter_.Reshard(operands_[2], dims));
    KRAFLA_ASSIGN(Instruction * moved, Moved(std::move(rows), box));
    if (moved == nullptr) return std::nullopt;
    KRAFLA_ASSIGN(Instruction * old, Operand(0, dims));
    DimensionsAttributes all;
    for (int64_t d = 0; d < array.rank(); ++d) all.dimensions.push_back(d);
    KRAFLA_ASSIGN(moved, emitter_.Infer(Opcode::kMap, {old, moved}, std::move(all), {i_.called(0)}));
    KRAFLA_ASSIGN(Instruction * mask, Within(box, dims, moved->shape().dims()));
    KRAFLA_ASSIGN(moved, emitter_.Infer(Opcode::kSelect, {mask, moved, old}));
    return Made(moved, dims);
  }

 private:
  // The box of `value` where the result has it, with anything elsewhere; null where that moves too much. It is cut as
  // the value is.
  Result<Instruction*> Moved(Value value, const Box& box) {
    const Splits dims = value.dims;
    const Dims& sizes = i_.shape().dims();
    const std::size_t rank = dims.size();
    for (std::size_t d = 0; d < rank; ++d)
      if (!dims[d].whole() && (!MayBeCutInto(value.size(d), dims[d]) || !MayBeCutInto(sizes[d], dims[d])))
        return nullptr;
    if (!AnyCut(dims) || Holds(box.count, 0)) return nullptr;
    Instruction* out = value.local;
    SliceAttributes slice{Dims(rank, 0), out->shape().dims(), Dims(rank, 1)};
    PadAttributes pad{Dims(rank, 0), Dims(rank, 0), Dims(rank, 0)};
    for (std::size_t d = 0; d < rank; ++d) {
      if (!dims[d].whole()) continue;
      slice.starts[d] = box.first[d], slice.limits[d] = box.first[d] + box.count[d];
      pad.low[d] = box.at[d], pad.high[d] = sizes[d] - box.at[d] - box.count[d];
    }
    if (slice.starts != Dims(rank, 0) || slice.limits != out->shape().dims()) {
      KRAFLA_ASSIGN(out, emitter_.Infer(Opcode::kSlice, {out}, std::move(slice)));
    }
    if (pad.low != pad.interior || pad.high != pad.interior) {
      KRAFLA_ASSIGN(Instruction * zero, emitter_.Zero(out->shape().element_type()));
      KRAFLA_ASSIGN(out, emitter_.Infer(Opcode::kPad, {out, zero}, std::move(pad)));
    }
    for (std::size_t d = 0; d < rank; ++d) {
      const int64_t block = BlockSize(sizes[d], dims[d]);
      if (dims[d].whole() || (box.first[d] == box.at[d] && block == out->shape().dims()[d])) continue;
      RowBlocks rows{out, d, box.first[d], box.at[d], box.count[d], block, out->shape().dims(), dims};
      for (std::size_t e = 0; e < rank; ++e) rows.sizes[e] = e == d ? sizes[d] : rows.sizes[e] * dims[e].count;
      KRAFLA_ASSIGN(const std::optional<Instruction*> moved, Rebalance(i_, rows, region_, emitter_));
      if (!moved) return nullptr;
      out = *moved;
    }
    return out;
  }

  // Where a block of the result has elements of the box.
  Result<Instruction*> Within(const Box& box, const Splits& dims, const Dims& block) {
    Instruction* out = nullptr;
    const auto is_smaller = [&](Instruction* a, Instruction* b) {
      return emitter_.Infer(Opcode::kCompare, {a, b}, CompareAttributes{ComparisonDirection::kLe});
    };
    for (std::size_t d = 0; d < block.size(); ++d) {
      if (box.count[d] == i_.shape().dims()[d]) continue;
      KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(ElementType::kS32, Dims{block[d]}));
      Instruction* row = emitter_.out().Add(Opcode::kIota, std::move(shape), {}, IotaAttributes{0});
      KRAFLA_ASSIGN(Instruction * first, Row(dims[d], block[d], box.at[d], row));
      KRAFLA_ASSIGN(Instruction * last, Row(dims[d], block[d], box.at[d] + box.count[d] - 1, row));
      KRAFLA_ASSIGN(Instruction * not_before, is_smaller(first, row));
      KRAFLA_ASSIGN(Instruction * not_behind, is_smaller(row, last));
      KRAFLA_ASSIGN(Instruction * one, emitter_.Infer(Opcode::kAnd, {not_before, not_behind}));
      KRAFLA_ASSIGN(one, AddBroadcast(emitter_.out(), one, block, Dims{static_cast<int64_t>(d)}));
      if (out != nullptr) { KRAFLA_ASSIGN(one, emitter_.Infer(Opcode::kAnd, {out, one})); }
      out = one;
    }
    if (out != nullptr) return out;
    Instruction* always = AddScalarConstant(emitter_.out(), ElementType::kPred, 1);
    return AddBroadcastScalar(emitter_.out(), always, block);
  }
  // Which row of a block a row of the array is, or would be, for each element of `like`.
  Result<Instruction*> Row(const Split& split, int64_t block, int64_t row, Instruction* like) {
    Instruction* one = AddScalarConstant(emitter_.out(), ElementType::kS32, static_cast<double>(row));
    if (!split.whole()) {
      KRAFLA_ASSIGN(Instruction * offset, emitter_.Offset(split, block));
      KRAFLA_ASSIGN(one, emitter_.Infer(Opcode::kSubtract, {one, offset}));
    }
    return AddBroadcastScalar(emitter_.out(), one, like->shape().dims());
  }
};

}  // namespace

Result<std::optional<Value>> BoxInBlocks(const Instruction& instruction, std::span<const Value> operands,
                                         const Region* region, const Wishes& wishes, Emitter& emitter) {
  BoxRule rule(instruction, operands, region, wishes, emitter);
  if (instruction.opcode() == Opcode::kSlice) return rule.Slice();
  return instruction.opcode() == Opcode::kPad ? rule.Pad() : rule.Scatter();
}

}  // namespace krafla::spmd
