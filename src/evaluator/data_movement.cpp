// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "base/index.h"
#include "base/interruption.h"
#include "evaluator/block_op.h"
#include "evaluator/context.h"
#include "evaluator/strided.h"

namespace krafla::evaluator {

namespace {

void CopyAll(const Literal& from, const View& from_view, Literal& to) {
  CopyView(to.shape().dims(), StorageBytes(to.shape().element_type()), from.bytes().data(), from_view,
           to.bytes().data(), DenseView(to.shape()));
}

// The start of a dynamic slice, clamped so that `sizes` fit (XLA: the same in dynamic-slice, -update-slice, gather).
// One operand with all starts, or a scalar each.
Dims ClampedStarts(std::span<const Value> indices, const Shape& shape, std::span<const int64_t> sizes) {
  Dims out;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    int64_t start = indices.size() == 1 && indices[0].shape().rank() == 1 ? IntegerAt(indices[0].array(), d)
                                                                          : IntegerAt(indices[At(d)].array(), 0);
    out.push_back(std::clamp<int64_t>(start, 0, std::max<int64_t>(0, shape.dim(d) - sizes[At(d)])));
  }
  return out;
}

int64_t Offset(std::span<const int64_t> starts, std::span<const int64_t> strides) {
  int64_t out = 0;
  for (std::size_t d = 0; d < starts.size(); ++d) out += starts[d] * strides[d];
  return out;
}

// Strides in logical order of a dense array that lies in the order of `layout`.
Dims LayoutStrides(const Shape& shape) {
  Dims out(At(shape.rank()), 1);
  const Dims& order = shape.layout().minor_to_major;
  if (order.ssize() != shape.rank()) return RowMajorStrides(shape.dims());
  int64_t stride = 1;
  for (int64_t d : order) {
    out[At(d)] = stride;
    stride *= shape.dim(d);
  }
  return out;
}

}  // namespace

Result<Value> EvalCopy(Context&, const Instruction&, Operands operands) { return std::move(operands[0]); }

Result<Value> EvalBitcast(Context& context, const Instruction& i, Operands operands) {
  const Literal& in = operands[0].array();
  const Shape& declared = i.operand(0)->shape();
  const Shape& result = i.shape();
  KRAFLA_ASSIGN(Literal out, NewLiteral(context, result.WithStaticDims()));
  if (in.bytes().size() != out.bytes().size() || !Shape::SameDims(in.shape(), declared))
    return InvalidArgument("A bitcast of {} to {} changes the number of bytes.", in.shape().ToString(false),
                           result.ToString(false));
  // To memory order of the operand's layout, then from that of the result's.
  const int in_bytes = StorageBytes(in.shape().element_type());
  const int out_bytes = StorageBytes(result.element_type());
  AlignedBytes memory(in.bytes().size(), false);
  CopyView(in.shape().dims(), in_bytes, in.bytes().data(), DenseView(in.shape()), memory.data(),
           {0, LayoutStrides(declared)});
  CopyView(result.dims(), out_bytes, memory.data(), {0, LayoutStrides(result)}, out.bytes().data(), DenseView(result));
  return Value::Own(std::move(out));
}

Result<Value> EvalBroadcast(Context& context, const Instruction& i, Operands operands) {
  const Literal& in = operands[0].array();
  KRAFLA_ASSIGN(Literal out, NewResult(context, i, operands));
  const Dims& dimensions = i.attr<DimensionsAttributes>().dimensions;
  Dims strides = RowMajorStrides(in.shape().dims());
  View from{0, Dims(At(out.shape().rank()), 0)};
  for (std::size_t d = 0; d < dimensions.size(); ++d)
    if (in.shape().dim(static_cast<int64_t>(d)) != 1) from.strides[At(dimensions[d])] = strides[d];
  CopyAll(in, from, out);
  return Value::Own(std::move(out));
}

Result<Value> EvalConcatenate(Context& context, const Instruction& i, Operands operands) {
  KRAFLA_ASSIGN(Literal out, NewResult(context, i, operands));
  const int64_t dimension = i.attr<DimensionsAttributes>().dimensions[0];
  const int bytes = StorageBytes(out.shape().element_type());
  View to = DenseView(out.shape());
  for (const Value& v : operands) {
    CopyView(v.shape().dims(), bytes, v.array().bytes().data(), DenseView(v.shape()), out.bytes().data(), to);
    to.offset += v.shape().dim(dimension) * to.strides[At(dimension)];
  }
  return Value::Own(std::move(out));
}

Result<Value> EvalDynamicSlice(Context& context, const Instruction& i, Operands operands) {
  const Literal& in = operands[0].array();
  KRAFLA_ASSIGN(Literal out, NewResult(context, i, operands));
  View from = DenseView(in.shape());
  Dims starts = ClampedStarts(operands.subspan(1), in.shape(), out.shape().dims());
  from.offset = Offset(starts, from.strides);
  CopyAll(in, from, out);
  return Value::Own(std::move(out));
}

Result<Value> EvalDynamicUpdateSlice(Context& context, const Instruction&, Operands operands) {
  const Literal& update = operands[1].array();
  KRAFLA_TRY(context.Spend(update.shape().element_count() + 1));
  Dims starts = ClampedStarts(operands.subspan(2), operands[0].shape(), update.shape().dims());
  KRAFLA_ASSIGN(Literal out, std::move(operands[0]).TakeMutable());
  View to = DenseView(out.shape());
  to.offset = Offset(starts, to.strides);
  // At run time the operand may be smaller than an update that fits its bound.
  Dims extents;
  for (int64_t d = 0; d < out.shape().rank(); ++d)
    extents.push_back(std::min(update.shape().dim(d), out.shape().dim(d)));
  CopyView(extents, StorageBytes(out.shape().element_type()), update.bytes().data(), DenseView(update.shape()),
           out.bytes().data(), to);
  return Value::Own(std::move(out));
}

Result<Value> EvalIota(Context& context, const Instruction& i, Operands operands) {
  KRAFLA_ASSIGN(Literal out, NewResult(context, i, operands));
  const Shape& shape = out.shape();
  if (shape.element_count() == 0) return Value::Own(std::move(out));
  const int64_t dimension = i.attr<IotaAttributes>().dimension;
  const int64_t extent = shape.dim(dimension), inner = DenseView(shape).strides[At(dimension)];
  const int bytes = StorageBytes(shape.element_type());
  // 0, 1, ... a block at a time, converted as `convert` does from s64; each fills what lies inside of it.
  constexpr int64_t kBlock = 512;
  const BlockOp convert = MakeConvert(ElementType::kS64, shape.element_type());
  int64_t counts[kBlock];
  alignas(16) std::byte line[kBlock * sizeof(Bits128)];
  const void* in[] = {counts};
  InterruptionPoll poll;
  for (int64_t at = 0; at < extent && !poll.Ends(kBlock); at += kBlock) {
    const int64_t count = std::min(kBlock, extent - at);
    for (int64_t k = 0; k < count; ++k) counts[k] = at + k;
    std::byte* to = out.bytes().data() + at * inner * bytes;
    convert.Run(in, inner == 1 ? to : line, count);
    for (int64_t k = 0; inner > 1 && k < count; ++k)
      FillElements(to + k * inner * bytes, inner, bytes, line + k * bytes);
  }
  // What lies outside repeats the first turn.
  const std::span<const std::byte> turn = out.bytes().first(At(extent * inner * bytes));
  for (std::size_t at = turn.size(); at < out.bytes().size() && !poll.Ends(extent * inner); at += turn.size())
    CopyBytes(turn, out.bytes().data() + at);
  return Value::Own(std::move(out));
}

Result<Value> EvalPad(Context& context, const Instruction& i, Operands operands) {
  const Literal& in = operands[0].array();
  const auto& a = i.attr<PadAttributes>();
  KRAFLA_ASSIGN(Literal out, NewResult(context, i, operands));
  const int bytes = StorageBytes(out.shape().element_type());
  FillElements(out.bytes().data(), out.shape().element_count(), bytes, operands[1].array().bytes().data());
  // Operand index x lands at low + x * (interior + 1); those that land outside are cut off.
  View from = DenseView(in.shape()), to = DenseView(out.shape());
  Dims extents;
  for (int64_t d = 0; d < in.shape().rank(); ++d) {
    // In 128 bits: low and high alone may be anything, only the result's size is known to be sane.
    const __int128 step = static_cast<__int128>(a.interior[At(d)]) + 1, low = a.low[At(d)];
    const __int128 size = out.shape().dim(d), extent = in.shape().dim(d);
    const __int128 first = low >= 0 ? 0 : (-low + step - 1) / step;
    const __int128 last = size - 1 - low < 0 ? -1 : std::min<__int128>((size - 1 - low) / step, extent - 1);
    extents.push_back(static_cast<int64_t>(std::max<__int128>(0, last - first + 1)));
    if (extents.back() == 0) return Value::Own(std::move(out));
    from.offset += static_cast<int64_t>(first) * from.strides[At(d)];
    to.offset += static_cast<int64_t>(low + first * step) * to.strides[At(d)];
    // A step past the end of the array is never taken.
    to.strides[At(d)] = extents.back() > 1 ? static_cast<int64_t>(step) * to.strides[At(d)] : 0;
  }
  CopyView(extents, bytes, in.bytes().data(), from, out.bytes().data(), to);
  return Value::Own(std::move(out));
}

Result<Value> EvalReshape(Context& context, const Instruction& i, Operands operands) {
  KRAFLA_ASSIGN(Shape shape, ResultShape(i, operands));
  if (shape.byte_size() != operands[0].shape().byte_size())
    return InvalidArgument("{} cannot be reshaped to {}.", operands[0].shape().ToString(false), shape.ToString(false));
  KRAFLA_TRY(context.Spend(1));
  KRAFLA_ASSIGN(Literal out, std::move(operands[0]).TakeMutable());
  KRAFLA_ASSIGN(Literal shaped, std::move(out).Reshaped(shape));
  return Value::Own(std::move(shaped));
}

Result<Value> EvalReverse(Context& context, const Instruction& i, Operands operands) {
  const Literal& in = operands[0].array();
  KRAFLA_ASSIGN(Literal out, NewResult(context, i, operands));
  if (out.shape().element_count() == 0) return Value::Own(std::move(out));
  View from = DenseView(in.shape());
  for (int64_t d : i.attr<DimensionsAttributes>().dimensions) {
    from.offset += (in.shape().dim(d) - 1) * from.strides[At(d)];
    from.strides[At(d)] = -from.strides[At(d)];
  }
  CopyAll(in, from, out);
  return Value::Own(std::move(out));
}

Result<Value> EvalSlice(Context& context, const Instruction& i, Operands operands) {
  const Literal& in = operands[0].array();
  const auto& a = i.attr<SliceAttributes>();
  KRAFLA_ASSIGN(Literal out, NewResult(context, i, operands));
  if (out.shape().element_count() == 0) return Value::Own(std::move(out));
  View from = DenseView(in.shape());
  for (int64_t d = 0; d < in.shape().rank(); ++d) {
    const int64_t stride = a.strides.empty() ? 1 : a.strides[At(d)];
    if (a.starts[At(d)] + (out.shape().dim(d) - 1) * stride >= in.shape().dim(d))
      return InvalidArgument("The slice from {} with stride {} leaves dimension {} of {}.", a.starts[At(d)], stride, d,
                             in.shape().ToString(false));
    from.offset += a.starts[At(d)] * from.strides[At(d)];
    from.strides[At(d)] *= stride;
  }
  CopyAll(in, from, out);
  return Value::Own(std::move(out));
}

Result<Value> EvalTranspose(Context& context, const Instruction& i, Operands operands) {
  const Literal& in = operands[0].array();
  KRAFLA_ASSIGN(Literal out, NewResult(context, i, operands));
  const Dims& permutation = i.attr<DimensionsAttributes>().dimensions;
  Dims strides = RowMajorStrides(in.shape().dims());
  View from;
  for (int64_t d : permutation) from.strides.push_back(strides[At(d)]);
  CopyAll(in, from, out);
  return Value::Own(std::move(out));
}

}  // namespace krafla::evaluator
