// SPDX-License-Identifier: Apache-2.0
// com.microsoft: what ONNX Runtime's quantisation writes where ONNX has no operator of integers.
#include <algorithm>

#include "onnx/quantised.h"

namespace krafla::onnx {

// a, its scale, its zero point, b, scale, zero point, the result's scale and zero point. In the result's steps and
// rounded with the zero point there, as ONNX Runtime does it, whose answers others' models were calibrated with.
Outputs OnQLinearBinary(Call& c) {
  XlaOp a = Convert(c.In(0), F32), b = Convert(c.In(3), F32);
  Meet(a, b);
  const Ints dims = DimsOf(a);
  const auto number = [&](std::size_t i) {
    return c.Has(i) ? Reshape(Convert(c.In(i), F32), {}) : Number(c.b, F32, 0);
  };
  const auto spread = [&](XlaOp x) { return BroadcastTo(x, dims); };
  const XlaOp zero = number(7);
  XlaOp y;
  if (c.node.op_type == "QLinearAdd") {
    const XlaOp step_a = Div(number(1), number(6)), step_b = Div(number(4), number(6));
    const XlaOp fixed = Sub(zero, Add(Mul(step_a, number(2)), Mul(step_b, number(5))));
    y = Add(Add(spread(fixed), Mul(a, spread(step_a))), Mul(b, spread(step_b)));
  } else {
    const XlaOp step = Div(Mul(number(1), number(4)), number(6));
    const XlaOp product = Mul(Sub(a, spread(number(2))), Sub(b, spread(number(5))));
    y = Add(Mul(product, spread(step)), spread(zero));
  }
  return {RoundedTo(c.Has(7) ? c.TypeOf(7) : U8, y, XlaOp())};
}
Outputs OnQLinearUnary(Call& c) {
  const XlaOp x = Dequantized(c, 0);
  const bool leaky = c.node.op_type == "QLinearLeakyRelu";
  return {RequantizedBy(c, ActivationOf(leaky ? "LeakyRelu" : "Sigmoid", c.Float("alpha", 0.01F), 0, x), 3)};
}
namespace {
// Channels are the last dimension where the attribute says so: `pool` sees them as the second one.
XlaOp WithChannelsSecond(Call& c, XlaOp x, XlaOp (*pool)(Call&, XlaOp)) {
  if (RankOf(x) < 2) Reject("It takes no arrays of {} dimensions.", RankOf(x));
  if (c.Int("channels_last", 0) == 0) return pool(c, x);
  const int64_t last = RankOf(x) - 1;
  return MoveAxis(pool(c, MoveAxis(x, last, 1)), 1, last);
}
}  // namespace
// Of the integers, as ONNX Runtime: sums are exact, and are rounded once.
Outputs OnQLinearGlobalAveragePool(Call& c) {
  const XlaOp values = Centred(BytesOf(c, 0, 2), S32, 1);
  const XlaOp sum =
      WithChannelsSecond(c, values, [](Call&, XlaOp v) { return ReduceBy(Fold::kSum, v, Range(2, RankOf(v)), true); });
  const auto count = static_cast<double>(c.ShapeOf(0).element_count() / std::max<int64_t>(Volume(DimsOf(sum)), 1));
  const XlaOp x = Reshape(Convert(c.In(1), F32), {}), y = Reshape(Convert(c.In(3), F32), {});
  const XlaOp step = Div(x, Mul(y, Like(y, count)));
  return {RoundedBy(c, Mul(Convert(sum, F32), BroadcastTo(step, DimsOf(sum))), 4)};
}
Outputs OnQLinearAveragePool(Call& c) {
  return {RequantizedBy(c, WithChannelsSecond(c, Dequantized(c, 0), AveragePoolOf), 3)};
}
Outputs OnQLinearConcat(Call& c) {
  Outputs parts;
  for (std::size_t i = 2; i + 2 < c.count(); i += 3) parts.push_back(Dequantized(c, i));
  if (parts.empty()) Reject("It has no operands.");
  return {RequantizedBy(c, ConcatInDim(c.b, parts, Axis(c.Int("axis"), RankOf(parts[0]))), 0)};
}
Outputs OnQLinearSoftmax(Call& c) {
  const XlaOp x = Dequantized(c, 0);
  const int64_t opset = c.Int("opset");
  return {RequantizedBy(c, SoftmaxOf(x, c.Int("axis", opset >= 13 ? -1 : 1), opset, false), 3)};
}
// A condition, x, its scale, its zero point, y, scale, zero point, the result's scale and zero point.
Outputs OnQLinearWhere(Call& c) {
  XlaOp x = Dequantized(c, 1), y = Dequantized(c, 4), condition = c.In(0);
  Meet(x, y);
  Meet(condition, x);
  y = BroadcastTo(y, DimsOf(x));
  return {RequantizedBy(c, Select(condition, x, y), 7)};
}

namespace {
XlaOp AddedTo(Call& c, XlaOp y, std::size_t bias) {
  return c.Has(bias) ? Add(y, BroadcastTo(Convert(c.In(bias), TypeOf(y)), DimsOf(y))) : y;
}
// Sums of products times the scale of a, a number or one a row, and that of b, a number or one a column.
XlaOp Scaled(XlaOp sum, XlaOp a, XlaOp b) {
  const Ints dims = DimsOf(sum);
  const auto rank = static_cast<int64_t>(dims.size());
  const XlaOp y = Convert(sum, F32);
  if (Volume(DimsOf(a)) == 1) return Mul(y, Spread(Mul(b, BroadcastTo(Reshape(a, {}), DimsOf(b))), dims, rank - 1, 0));
  return Mul(y, Mul(Spread(a, dims, std::max<int64_t>(rank - 2, 0), 0), Spread(b, dims, rank - 1, 0)));
}
}  // namespace

// A, its scale, its zero point, B, scale, zero point, C in the products' scale, the result's scale and zero point,
// without which the result is f32.
Outputs OnQGemm(Call& c) {
  if (c.ShapeOf(0).rank() != 2 || c.ShapeOf(3).rank() != 2) Reject("QGemm takes matrices.");
  XlaOp sum = IntegerMatMul(TransposedIf(BytesOf(c, 0, 2), c.Int("transA", 0) != 0),
                            TransposedIf(BytesOf(c, 3, 5), c.Int("transB", 0) != 0));
  sum = AddedTo(c, sum, 6);
  const XlaOp a = Mul(Convert(c.In(1), F32), Number(c.b, F32, c.Float("alpha", 1))), b = Convert(c.In(4), F32);
  if (!c.Has(7)) return {Scaled(sum, a, b)};
  const XlaOp y = Convert(c.In(7), F32);
  if (Volume(DimsOf(a)) == 1 && Volume(DimsOf(y)) == 1)
    return {RoundedBy(c, Scaled(sum, Div(Reshape(a, {}), Reshape(y, {})), b), 8)};
  return {RequantizedBy(c, Scaled(sum, a, b), 7)};
}
// A, B, the scale of each, the zero point of each, a bias.
Outputs OnMatMulIntegerToFloat(Call& c) {
  const XlaOp sum = IntegerMatMul(BytesOf(c, 0, 4), BytesOf(c, 1, 5));
  return {AddedTo(c, Scaled(sum, Convert(c.In(2), F32), Convert(c.In(3), F32)), 6)};
}
// A, which is quantised here, B, its scale, its zero point, a bias.
Outputs OnDynamicQuantizeMatMul(Call& c) {
  const Dynamically a = QuantizedDynamically(c.In(0));
  const XlaOp sum = IntegerMatMul(BytesOf(a.q, a.zero), BytesOf(c, 1, 3));
  return {AddedTo(c, Scaled(sum, a.scale, Convert(c.In(2), F32)), 4)};
}

}  // namespace krafla::onnx
