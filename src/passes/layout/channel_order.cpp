// SPDX-License-Identifier: Apache-2.0
#include "passes/layout/channel_order.h"

#include <algorithm>
#include <span>

#include "base/checked_math.h"
#include "base/index.h"
#include "ir/dims.h"
#include "passes/rewrite.h"

namespace krafla {

namespace {

// There is a position, or the channels are at the end already.
bool HasPositions(const Shape& shape, int64_t channels) {
  return shape.IsArray() && channels >= 1 && shape.rank() >= 2 + channels;
}

// A reshape that splits or merges channels alone: what the other side has, 0 if there is none such.
int64_t ChannelsBeyondReshape(const Shape& known, int64_t channels, const Shape& other) {
  const int64_t positions = known.rank() - 1 - channels, others = other.rank() - 1 - positions;
  if (others < 1) return 0;
  const auto from = known.dims().span(), to = other.dims().span();
  const bool same = from[0] == to[0] && std::ranges::equal(from.last(At(positions)), to.last(At(positions))) &&
                    Product(from.subspan(1, At(channels))) == Product(to.subspan(1, At(others)));
  return same ? others : 0;
}

bool MovesChannelsAlone(std::span<const int64_t> permutation, int64_t channels) {
  for (std::size_t d = 0; d < permutation.size(); ++d)
    if ((d == 0 || d > At(channels)) && permutation[d] != static_cast<int64_t>(d)) return false;
  return true;
}

// Of operations all of whose arrays have the same dimensions of channels, but for scalars and what follows operand
// `arrays`.
ChannelDims Alike(const Instruction& op, int64_t channels, std::size_t arrays) {
  ChannelDims out{channels, std::vector<int64_t>(op.operand_count(), 0)};
  for (std::size_t n = 0; n < arrays; ++n)
    if (op.operand(n)->shape().rank() > 0) out.operands[n] = channels;
  return out;
}

// Of an operation whose further operands are where a slice starts, one each dimension; 0: it is none.
std::size_t ArraysBeforeStarts(Opcode opcode) {
  if (opcode == Opcode::kDynamicSlice) return 1;
  return opcode == Opcode::kDynamicUpdateSlice ? 2 : 0;
}

// What carries the arrays of operations but reshapes, by the number of channels of any of them.
std::optional<ChannelDims> Carried(const Instruction& op, int64_t channels) {
  const Opcode opcode = op.opcode();
  if (opcode == Opcode::kConcatenate) return Alike(op, channels, op.operand_count());
  if (opcode == Opcode::kReverse || opcode == Opcode::kSlice || opcode == Opcode::kPad) return Alike(op, channels, 1);
  if (opcode == Opcode::kTranspose) {
    if (!MovesChannelsAlone(op.attr<DimensionsAttributes>().dimensions, channels)) return std::nullopt;
    return Alike(op, channels, 1);
  }
  // Elements of a window come in the same order: that of its positions.
  if (opcode == Opcode::kSelectAndScatter) return Alike(op, channels, 2);
  if (opcode == Opcode::kReduceWindow) {
    if (op.operand_count() != 2) return std::nullopt;
    return Alike(op, channels, 1);
  }
  if (const std::size_t arrays = ArraysBeforeStarts(opcode); arrays > 0) {
    // The older form has all starts in one array.
    if (op.operand_count() != arrays + At(op.operand(0)->shape().rank())) return std::nullopt;
    return Alike(op, channels, arrays);
  }
  if (!IsElementwise(op.opcode())) return std::nullopt;
  for (const Instruction* operand : op.operands())
    if (operand->shape().rank() > 0 && !Shape::SameDims(operand->shape(), op.shape())) return std::nullopt;
  return Alike(op, channels, op.operand_count());
}

Dims Renumbered(std::span<const int64_t> dimensions, std::span<const int64_t> inverse) {
  Dims out;
  for (int64_t d : dimensions) out.push_back(inverse[At(d)]);
  return out;
}

Window Permuted(const Window& window, std::span<const int64_t> permutation) {
  Window out;
  for (int64_t d : permutation) out.push_back(window[At(d)]);
  return out;
}

Attributes AttributesAtTheEnd(const Instruction& op, const ChannelDims& channels, std::span<const int64_t> to_end) {
  const Opcode opcode = op.opcode();
  if (opcode == Opcode::kConcatenate || opcode == Opcode::kReverse)
    return DimensionsAttributes{Renumbered(op.attr<DimensionsAttributes>().dimensions, Inverse(to_end))};
  if (opcode == Opcode::kTranspose) {
    const Dims operand = Inverse(ChannelsToTheEnd(op.shape().rank(), channels.operands[0]));
    return DimensionsAttributes{Renumbered(Permuted(op.attr<DimensionsAttributes>().dimensions, to_end), operand)};
  }
  if (opcode == Opcode::kPad) {
    const auto& a = op.attr<PadAttributes>();
    return PadAttributes{Permuted(a.low, to_end), Permuted(a.high, to_end), Permuted(a.interior, to_end)};
  }
  if (opcode == Opcode::kSlice) {
    const auto& a = op.attr<SliceAttributes>();
    return SliceAttributes{Permuted(a.starts, to_end), Permuted(a.limits, to_end), Permuted(a.strides, to_end)};
  }
  if (opcode == Opcode::kDynamicSlice)
    return DynamicSliceAttributes{Permuted(op.attr<DynamicSliceAttributes>().slice_sizes, to_end)};
  if (opcode == Opcode::kReduceWindow || opcode == Opcode::kSelectAndScatter)
    return WindowAttributes{Permuted(op.attr<WindowAttributes>().window, to_end)};
  return op.attributes();
}

}  // namespace

Dims ChannelsToTheEnd(int64_t rank, int64_t channels) {
  Dims out{0};
  for (int64_t d = 1 + channels; d < rank; ++d) out.push_back(d);
  for (int64_t d = 1; d <= channels; ++d) out.push_back(d);
  return out;
}

std::optional<ChannelDims> FromResult(const Instruction& op, int64_t channels) {
  if (!HasPositions(op.shape(), channels) || !IsStatic(op)) return std::nullopt;
  if (op.opcode() != Opcode::kReshape) return Carried(op, channels);
  const int64_t beyond = ChannelsBeyondReshape(op.shape(), channels, op.operand(0)->shape());
  if (beyond == 0) return std::nullopt;
  return ChannelDims{channels, {beyond}};
}

std::optional<ChannelDims> FromOperand(const Instruction& op, std::size_t n, int64_t channels) {
  if (!op.shape().IsArray() || !HasPositions(op.operand(n)->shape(), channels) || !IsStatic(op)) return std::nullopt;
  if (op.opcode() == Opcode::kReshape) {
    const int64_t beyond = ChannelsBeyondReshape(op.operand(0)->shape(), channels, op.shape());
    if (beyond == 0) return std::nullopt;
    return ChannelDims{beyond, {channels}};
  }
  std::optional<ChannelDims> out = Carried(op, channels);
  if (out && out->operands[n] != channels) return std::nullopt;
  return out;
}

Instruction* WithChannelsAtTheEnd(const Instruction& op, const ChannelDims& channels,
                                  std::vector<Instruction*> operands) {
  const Dims to_end = ChannelsToTheEnd(op.shape().rank(), channels.result);
  if (const std::size_t arrays = ArraysBeforeStarts(op.opcode()); arrays > 0)
    for (std::size_t d = 0; d < to_end.size(); ++d) operands[arrays + d] = op.operand(arrays + At(to_end[d]));
  const std::vector<Computation*> called(op.called().begin(), op.called().end());
  return Rewriter(op).Add(op.opcode(), ArrayShape(op.shape().element_type(), Permuted(op.shape().dims(), to_end)),
                          std::move(operands), AttributesAtTheEnd(op, channels, to_end), called);
}

}  // namespace krafla
