// SPDX-License-Identifier: Apache-2.0
// Convolutions and reduce-windows over dimensions that are cut: each device computes its block of the result, for which
// it needs some rows of the blocks beside its own (a halo; XLA: ExchangeHalo,
// xla/service/spmd/spmd_partitioner_util.cc). Neighbours send them; at the two ends stands what a window reads outside
// of the array.
#include <algorithm>

#include "base/index.h"
#include "ir/builder.h"
#include "passes/spmd/spmd_rule.h"

namespace krafla::spmd {
namespace {

// What a device's windows read: its own block, `before` rows in front of it and `after` behind it, and of that no more
// than the padding leaves.
struct Halo {
  int64_t before = 0, after = 0;
  int64_t padding_low = 0, padding_high = 0;
};

// Of `windows` windows over blocks of `block` rows: the same for all blocks, as each device's windows begin where its
// block does but for the padding.
std::optional<Halo> HaloOf(const WindowDim& w, int64_t block, int64_t windows) {
  // From the first row of the own block on, in steps of the input with its rows laid apart.
  const int64_t apart = w.base_dilation, first = -w.padding_low,
                last = (windows - 1) * w.stride + (w.size - 1) * w.window_dilation + first;
  Halo out;
  if (first < 0) out.before = (-first + apart - 1) / apart;
  if (last >= 0) out.after = std::max<int64_t>(last / apart - (block - 1), 0);
  if (windows < 1 || last < 0 || std::max(out.before, out.after) > block) return std::nullopt;
  const int64_t rows = (out.before + block + out.after - 1) * apart + 1;
  out.padding_low = -(first + out.before * apart);
  out.padding_high = last - first + 1 - rows - out.padding_low;
  return out;
}

class WindowRule : public Rule {
 public:
  using Rule::Rule;

  Out Convolution() {
    const auto& a = i_.attr<ConvolutionAttributes>();
    const Shape &input = i_.operand(0)->shape(), &made = i_.shape();
    if (a.batch_group_count != 1) return std::nullopt;
    Splits in = WholeDims(input.rank()), out = WholeDims(made.rank());
    window_ = a.window;
    in[At(a.input_batch)] = out[At(a.output_batch)] = operands_[0].dims[At(a.input_batch)];
    Splits of_kernel = WholeDims(made.rank());
    Split along;
    for (std::size_t d = 0; d < window_.size(); ++d) {
      const Split& split = operands_[0].dims[At(a.input_spatial[d])];
      if (split.whole() || operands_[1].dims[At(a.kernel_spatial[d])] != split) {
        Take(a.input_spatial[d], a.output_spatial[d], window_[d], in, out);
      } else if (TakePart(a.input_spatial[d], made.dim(a.output_spatial[d]), window_[d])) {
        in[At(a.input_spatial[d])] = of_kernel[At(a.kernel_spatial[d])] = split;
        along = Combine(along, split);
      }
    }
    if (halos_.empty() || !MayCut(in)) return std::nullopt;
    KRAFLA_ASSIGN(Value x, emitter_.Reshard(operands_[0], in));
    KRAFLA_ASSIGN(x, emitter_.MaskedWithZeros(std::move(x), CutDims()));
    for (const Cut& cut : halos_) { KRAFLA_ASSIGN(x, WithHalo(std::move(x), cut, nullptr)); }
    KRAFLA_ASSIGN(Instruction * kernel, Operand(1, of_kernel));
    ConvolutionAttributes local = a;
    local.window = window_;
    return WithSum(With(std::move(local), {x.local, kernel}, std::move(out)), along);
  }

  Out ReduceWindow() {
    if (i_.operand_count() != 2 || !i_.shape().IsArray()) return std::nullopt;
    const Shape& input = i_.operand(0)->shape();
    WindowAttributes local = i_.attr<WindowAttributes>();
    window_ = local.window;
    Splits in = operands_[0].dims, out = in;
    for (int64_t d = 0; d < input.rank(); ++d) {
      WindowDim& w = window_[At(d)];
      if (w == WindowDim()) continue;
      in[At(d)] = out[At(d)] = Split();
      Take(d, d, w, in, out);
    }
    if (halos_.empty() || !MayCut(in)) return std::nullopt;
    KRAFLA_ASSIGN(Instruction * init, WholeOperand(1));
    KRAFLA_ASSIGN(Value x, emitter_.Reshard(operands_[0], in));
    KRAFLA_ASSIGN(x, emitter_.Masked(std::move(x), CutDims(), init));
    for (const Cut& cut : halos_) { KRAFLA_ASSIGN(x, WithHalo(std::move(x), cut, init)); }
    local.window = window_;
    return With(std::move(local), {x.local, init}, std::move(out));
  }

 private:
  struct Cut {
    int64_t dim = 0;
    Halo halo;
  };

  // Behind whose ends windows read.
  std::vector<std::size_t> CutDims() const {
    std::vector<std::size_t> out;
    for (const Cut& cut : halos_) out.push_back(At(cut.dim));
    return out;
  }

  // Keeps dimension `from` cut, where it is, and so does the result's `to`; the window reads no further than what each
  // device then has.
  void Take(int64_t from, int64_t to, WindowDim& w, Splits& in, Splits& out) {
    const Split& split = operands_[0].dims[At(from)];
    if (split.whole()) return;
    const int64_t input = i_.operand(0)->shape().dim(from), made = i_.shape().dim(to);
    // The blocks of both begin together; where the result's are smaller, as of windows that stay within the array, its
    // rows move to where they belong.
    const int64_t block = BlockSize(input, split), windows = block * w.base_dilation / w.stride;
    if (!MayBeCutInto(input, split) || !MayBeCutInto(made, split) || block * w.base_dilation != windows * w.stride ||
        windows < BlockSize(made, split))
      return;
    const std::optional<Halo> halo = HaloOf(w, block, windows);
    if (!halo) return;
    if (windows != BlockSize(made, split)) more_.emplace_back(At(to), windows);
    in[At(from)] = out[At(to)] = split;
    halos_.push_back({from, *halo});
    w.padding_low = halo->padding_low;
    w.padding_high = halo->padding_high;
  }

  // Each device has a part of the window, over its part of the input, and gets a part of the sum: the gradient of a
  // kernel.
  bool TakePart(int64_t from, int64_t windows, WindowDim& w) {
    const int64_t count = operands_[0].dims[At(from)].count, block = i_.operand(0)->shape().dim(from) / count;
    WindowDim part = w;
    part.size /= count;
    // Of parts that are not equal a device would have rows of the kernel that are none, over rows of the input.
    if (operands_[0].IsPadded(At(from)) || w.size % count != 0 || w.reversal ||
        i_.shape().element_type() == ElementType::kPred || part.size * w.window_dilation != block * w.base_dilation)
      return false;
    const std::optional<Halo> halo = HaloOf(part, block, windows);
    if (!halo) return false;
    part.padding_low = halo->padding_low, part.padding_high = halo->padding_high;
    w = part;
    halos_.push_back({from, *halo});
    return true;
  }

  // Rows of the block in front of (`forward`), or behind, the device's own.
  Result<Instruction*> Neighbours(const Value& value, const Cut& cut, int64_t rows, bool forward,
                                  Instruction* outside) {
    const Shape& block = value.local->shape();
    const Split& split = value.dims[At(cut.dim)];
    SliceAttributes slice{Dims(At(block.rank()), 0), block.dims(), Dims(At(block.rank()), 1)};
    if (forward) slice.starts[At(cut.dim)] = block.dim(cut.dim) - rows;
    else slice.limits[At(cut.dim)] = rows;
    KRAFLA_ASSIGN(Instruction * edge, emitter_.Infer(Opcode::kSlice, {value.local}, std::move(slice)));
    Splits others = value.dims;
    others[At(cut.dim)] = Split();
    KRAFLA_ASSIGN(Instruction * came, emitter_.Shift(edge, split, others, region_, forward));
    if (outside == nullptr) return came;
    // Who has no neighbour there got zeros.
    KRAFLA_ASSIGN(Instruction * place, emitter_.Offset(split, 1));
    Instruction* last =
        AddScalarConstant(emitter_.out(), ElementType::kS32, forward ? 0 : static_cast<double>(split.count - 1));
    KRAFLA_ASSIGN(Instruction * at_end, emitter_.Infer(Opcode::kCompare, {place, last}, CompareAttributes{}));
    const Dims& dims = came->shape().dims();
    KRAFLA_ASSIGN(at_end, AddBroadcastScalar(emitter_.out(), at_end, dims));
    KRAFLA_ASSIGN(Instruction * outsides, AddBroadcastScalar(emitter_.out(), outside, dims));
    return emitter_.Infer(Opcode::kSelect, {at_end, outsides, came});
  }

  Result<Value> WithHalo(Value value, const Cut& cut, Instruction* outside) {
    std::vector<Instruction*> parts;
    if (cut.halo.before > 0) {
      KRAFLA_ASSIGN(Instruction * part, Neighbours(value, cut, cut.halo.before, true, outside));
      parts.push_back(part);
    }
    parts.push_back(value.local);
    if (cut.halo.after > 0) {
      KRAFLA_ASSIGN(Instruction * part, Neighbours(value, cut, cut.halo.after, false, outside));
      parts.push_back(part);
    }
    if (parts.size() == 1) return value;
    KRAFLA_ASSIGN(value.local, emitter_.Infer(Opcode::kConcatenate, std::move(parts), DimensionsAttributes{{cut.dim}}));
    return value;
  }

  // The operation with the attributes that it has on blocks.
  Out With(Attributes attributes, std::vector<Instruction*> operands, Splits out) {
    KRAFLA_ASSIGN(const Shape block, BlockShape(i_.shape(), out));
    Dims dims = block.dims();
    for (const auto& [d, windows] : more_) dims[d] = windows;
    KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(block.element_type(), dims));
    Instruction* made = emitter_.Clone(i_, std::move(shape), std::move(operands));
    made->set_attributes(std::move(attributes));
    for (const auto& [d, windows] : more_) {
      RowBlocks rows{made, d, 0, 0, i_.shape().dims()[d], block.dims()[d], made->shape().dims(), out};
      for (std::size_t e = 0; e < dims.size(); ++e) rows.sizes[e] = e == d ? rows.count : rows.sizes[e] * out[e].count;
      KRAFLA_ASSIGN(const std::optional<Instruction*> moved, Rebalance(i_, rows, region_, emitter_));
      if (!moved) return std::nullopt;
      made = *moved;
    }
    return Made(made, std::move(out));
  }

  Window window_;
  std::vector<Cut> halos_;
  std::vector<std::pair<std::size_t, int64_t>> more_;  // dimensions of the result, and windows of each device
};

}  // namespace

Result<std::optional<Value>> WindowsInBlocks(const Instruction& instruction, std::span<const Value> operands,
                                             const Region* region, const Wishes& wishes, Emitter& emitter) {
  WindowRule rule(instruction, operands, region, wishes, emitter);
  return instruction.opcode() == Opcode::kConvolution ? rule.Convolution() : rule.ReduceWindow();
}

}  // namespace krafla::spmd
