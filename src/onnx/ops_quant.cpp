// SPDX-License-Identifier: Apache-2.0
// Quantised models: QDQ, and the QOperator form, which is the same mathematics in one node.
#include <algorithm>
#include <cmath>

#include "onnx/call.h"

namespace krafla::onnx {

XlaOp ConvolutionOf(Call& c, XlaOp x, XlaOp w, std::optional<ElementType> type);  // ops_conv.cpp

namespace {

struct Bounds {
  double low, high;
};
Bounds BoundsOf(ElementType type) {
  if (type == U8) return {0, 255};
  if (type == S8) return {-128, 127};
  if (type == U16) return {0, 65535};
  if (type == S16) return {-32768, 32767};
  if (type == U4) return {0, 15};
  if (type == S4) return {-8, 7};
  if (type == U2) return {0, 3};
  if (type == S2) return {-2, 1};
  if (type == F8E4M3FN) return {-448, 448};
  if (type == F8E4M3FNUZ) return {-240, 240};
  if (type == F8E5M2 || type == F8E5M2FNUZ) return {-57344, 57344};
  if (type == F4E2M1FN) return {-6, 6};
  Refuse("Quantisation to {} is not supported.", ElementTypeName(type));
}
// A scale or zero point for the elements of `dims`: one for all, one along the axis, or one a block of the axis.
XlaOp Spread(XlaOp scale, const Ints& dims, int64_t axis, int64_t block) {
  const Ints have = DimsOf(scale);
  if (Volume(have) == 1) return BroadcastTo(Reshape(scale, {}), dims);
  if (have.size() == 1 && block == 0) return AlongAxis(scale, dims, Axis(axis, static_cast<int64_t>(dims.size())));
  if (have.size() != dims.size() || block <= 0) Reject("The scale has {} dimensions.", have.size());
  const auto at = static_cast<std::size_t>(Axis(axis, static_cast<int64_t>(dims.size())));
  Ints wide, places, flat = have;
  for (std::size_t i = 0; i < have.size(); ++i) {
    places.push_back(static_cast<int64_t>(wide.size()));
    wide.push_back(have[i]);
    if (i == at) wide.push_back(block);
  }
  flat[at] = Volume(Ints{have[at], block});
  if (flat[at] < dims[at]) Reject("{} blocks of {} for {} elements.", have[at], block, dims[at]);
  return SliceInDim(Reshape(BroadcastInDim(scale, wide, places), flat), 0, dims[at], 1, static_cast<int64_t>(at));
}
XlaOp Quantized(XlaOp x, XlaOp scale, XlaOp zero, ElementType to) {
  const Bounds bounds = BoundsOf(to);
  XlaOp y = Div(x, scale);
  if (IsSmallFloat(to)) return Convert(ClampTo(y, bounds.low, bounds.high), to);
  y = RoundNearestEven(y);
  if (!zero.IsUninitialized()) y = Add(y, Convert(zero, TypeOf(y)));
  return Convert(Convert(ClampTo(y, bounds.low, bounds.high), S32), to);
}
XlaOp Dequantized(Call& c, std::size_t first, int64_t axis = 1) {
  const XlaOp x = c.In(first);
  const Ints dims = DimsOf(x);
  XlaOp y = Convert(x, F32);
  if (c.Has(first + 2)) y = Sub(y, Convert(Spread(c.In(first + 2), dims, axis, 0), F32));
  return Mul(y, Spread(Convert(c.In(first + 1), F32), dims, axis, 0));
}
XlaOp RequantizedBy(Call& c, XlaOp y, std::size_t first) {
  const Ints dims = DimsOf(y);
  const XlaOp zero = c.Has(first + 1) ? c.In(first + 1) : XlaOp();
  return Quantized(y, Spread(Convert(c.In(first), F32), dims, 1, 0),
                   zero.IsUninitialized() ? zero : Spread(zero, dims, 1, 0),
                   zero.IsUninitialized() ? U8 : TypeOf(zero));
}
// Integers less their zero point: in f32, whose sums of products of bytes are exact to 2^24, or in s32.
XlaOp Centred(Call& c, std::size_t value, std::size_t zero, int64_t axis) {
  const XlaOp x = Convert(c.In(value), S32);
  if (!c.Has(zero)) return x;
  return Sub(x, Convert(Spread(c.In(zero), DimsOf(x), axis, 0), S32));
}
// The zero point of the rows of a matrix, which may be given for each of them.
XlaOp CentredRows(Call& c, std::size_t value, std::size_t zero, bool rows) {
  const int64_t rank = c.ShapeOf(value).rank();
  return Centred(c, value, zero, rank >= 2 ? (rows ? rank - 2 : rank - 1) : 0);
}

struct Dynamically {
  XlaOp q, scale, zero;
};
// To u8 by the range of all of x, which is widened to hold zero.
Dynamically QuantizedDynamically(XlaOp x) {
  const Ints all = Range(0, RankOf(x));
  const XlaOp zero = Like(x, 0);
  const XlaOp low = Min(ReduceBy(Fold::kMin, x, all, false), zero),
              high = Max(ReduceBy(Fold::kMax, x, all, false), zero);
  const XlaOp scale = Div(Sub(high, low), Like(x, 255));
  const XlaOp safe = Select(Eq(scale, zero), Like(x, 1), scale);
  const XlaOp point = Convert(Convert(ClampTo(RoundNearestEven(Div(Neg(low), safe)), 0, 255), S32), U8);
  return {Quantized(x, BroadcastTo(safe, DimsOf(x)), BroadcastTo(point, DimsOf(x)), U8), scale, point};
}

}  // namespace

XlaOp ThroughU8(XlaOp x) {
  const Dynamically d = QuantizedDynamically(x);
  const Ints dims = DimsOf(x);
  const XlaOp centred = Sub(Convert(Convert(d.q, S32), F32), BroadcastTo(Convert(Convert(d.zero, S32), F32), dims));
  return Mul(centred, BroadcastTo(d.scale, dims));
}
Outputs OnQuantizeLinear(Call& c) {
  const XlaOp given = c.In(0);
  const Ints dims = DimsOf(given);
  const int64_t axis = c.Int("axis", 1), block = c.Int("block_size", 0);
  const ElementType to = c.Has(2)                        ? c.TypeOf(2)
                         : c.Int("output_dtype", 0) != 0 ? ToElementType(c.Int("output_dtype"))
                                                         : U8;
  const XlaOp zero = c.Has(2) && !IsSmallFloat(to) ? Spread(c.In(2), dims, axis, block) : XlaOp();
  return {Quantized(Convert(given, F32), Spread(Convert(c.In(1), F32), dims, axis, block), zero, to)};
}
Outputs OnDequantizeLinear(Call& c) {
  const XlaOp x = c.In(0);
  const Ints dims = DimsOf(x);
  const int64_t axis = c.Int("axis", 1), block = c.Int("block_size", 0);
  XlaOp y = Convert(x, F32);
  if (c.Has(2)) y = Sub(y, Convert(Spread(c.In(2), dims, axis, block), F32));
  return {Convert(Mul(y, Spread(Convert(c.In(1), F32), dims, axis, block)), c.TypeOf(1))};
}
Outputs OnDynamicQuantizeLinear(Call& c) {
  const Dynamically d = QuantizedDynamically(c.In(0));
  return {d.q, d.scale, d.zero};
}
Outputs OnMatMulInteger(Call& c) { return {MatMulOf(CentredRows(c, 0, 2, true), CentredRows(c, 1, 3, false), S32)}; }
Outputs OnConvInteger(Call& c) { return {ConvolutionOf(c, Centred(c, 0, 2, 1), Centred(c, 1, 3, 0), S32)}; }
Outputs OnQLinearMatMul(Call& c) {
  const XlaOp sum = MatMulOf(CentredRows(c, 0, 2, true), CentredRows(c, 3, 5, false), S32);
  const Ints dims = DimsOf(sum);
  const auto rank = static_cast<int64_t>(dims.size());
  const XlaOp scale = Mul(Spread(Convert(c.In(1), F32), dims, std::max<int64_t>(rank - 2, 0), 0),
                          Spread(Convert(c.In(4), F32), dims, rank - 1, 0));
  return {RequantizedBy(c, Mul(Convert(sum, F32), scale), 6)};
}
Outputs OnQLinearConv(Call& c) {
  XlaOp sum = ConvolutionOf(c, Centred(c, 0, 2, 1), Centred(c, 3, 5, 0), S32);
  const Ints dims = DimsOf(sum);
  if (c.Has(8)) sum = Add(sum, AlongAxis(Convert(c.In(8), S32), dims, 1));
  const XlaOp scale = Mul(Spread(Convert(c.In(1), F32), dims, 1, 0), Spread(Convert(c.In(4), F32), dims, 1, 0));
  return {RequantizedBy(c, Mul(Convert(sum, F32), scale), 6)};
}
// com.microsoft: a, its scale, its zero point, b, scale, zero point, the result's scale and zero point.
Outputs OnQLinearBinary(Call& c) {
  XlaOp a = Dequantized(c, 0), b = Dequantized(c, 3);
  Meet(a, b);
  return {RequantizedBy(c, c.node.op_type == "QLinearAdd" ? Add(a, b) : Mul(a, b), 6)};
}
Outputs OnQLinearUnary(Call& c) {
  const XlaOp x = Dequantized(c, 0);
  const bool leaky = c.node.op_type == "QLinearLeakyRelu";
  return {RequantizedBy(c, ActivationOf(leaky ? "LeakyRelu" : "Sigmoid", c.Float("alpha", 0.01F), 0, x), 3)};
}
Outputs OnQLinearGlobalAveragePool(Call& c) {
  if (c.Int("channels_last", 0) != 0) Refuse("Channels as the last dimension are not supported.");
  const XlaOp x = Dequantized(c, 0);
  return {RequantizedBy(c, MeanOf(x, Range(2, RankOf(x)), true), 3)};
}
Outputs OnQLinearConcat(Call& c) {
  Outputs parts;
  for (std::size_t i = 2; i + 2 < c.count(); i += 3) parts.push_back(Dequantized(c, i));
  if (parts.empty()) Reject("It has no operands.");
  return {RequantizedBy(c, ConcatInDim(c.b, parts, Axis(c.Int("axis"), RankOf(parts[0]))), 0)};
}

}  // namespace krafla::onnx
