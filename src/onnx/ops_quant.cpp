// SPDX-License-Identifier: Apache-2.0
// Quantised models: QDQ, and the QOperator form, which is the same mathematics in one node.
#include <algorithm>
#include <cmath>

#include "onnx/quantised.h"

namespace krafla::onnx {
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
}  // namespace

XlaOp Spread(XlaOp scale, const Ints& dims, int64_t axis, int64_t block) {
  const Ints have = DimsOf(scale);
  if (Volume(have) == 1) return BroadcastTo(Reshape(scale, {}), dims);
  if (have.size() == 1 && block == 0) return AlongAxis(scale, dims, Axis(axis, static_cast<int64_t>(dims.size())));
  if (have.size() == dims.size() && block == 0) return BroadcastTo(scale, dims);
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
XlaOp RoundedTo(ElementType to, XlaOp y, XlaOp zero, bool saturates) {
  const Bounds bounds = BoundsOf(to);
  if (IsSmallFloat(to) && !saturates) return Convert(y, to);
  if (IsSmallFloat(to)) return Convert(ClampTo(y, bounds.low, bounds.high), to);
  y = RoundNearestEven(y);
  if (!zero.IsUninitialized()) y = Add(y, Convert(zero, TypeOf(y)));
  return Convert(Convert(ClampTo(y, bounds.low, bounds.high), S32), to);
}
XlaOp Dequantized(Call& c, std::size_t first, int64_t axis) {
  const XlaOp x = c.In(first);
  const Ints dims = DimsOf(x);
  XlaOp y = Convert(x, F32);
  if (c.Has(first + 2)) y = Sub(y, Convert(Spread(c.In(first + 2), dims, axis, 0), F32));
  return Mul(y, Spread(Convert(c.In(first + 1), F32), dims, axis, 0));
}
XlaOp RoundedBy(Call& c, XlaOp y, std::size_t zero) {
  return c.Has(zero) ? RoundedTo(c.TypeOf(zero), y, Spread(c.In(zero), DimsOf(y), 1, 0)) : RoundedTo(U8, y, XlaOp());
}
XlaOp RequantizedBy(Call& c, XlaOp y, std::size_t first) {
  const Ints dims = DimsOf(y);
  return RoundedBy(c, Div(y, Spread(Convert(c.In(first), F32), dims, 1, 0)), first + 1);
}

Dynamically QuantizedDynamically(XlaOp x) {
  const Ints all = Range(0, RankOf(x));
  const XlaOp zero = Like(x, 0);
  const XlaOp low = Min(ReduceBy(Fold::kMin, x, all, false), zero),
              high = Max(ReduceBy(Fold::kMax, x, all, false), zero);
  const XlaOp step = Div(Sub(high, low), Like(x, 255));
  const XlaOp scale = Select(Eq(step, zero), Like(x, 1), step);  // of zeros alone 1, as in ONNX Runtime
  const XlaOp point = Convert(Convert(ClampTo(RoundNearestEven(Div(Neg(low), scale)), 0, 255), S32), U8);
  const XlaOp steps = Div(x, BroadcastTo(scale, DimsOf(x)));
  return {RoundedTo(U8, steps, BroadcastTo(point, DimsOf(x))), scale, point};
}
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
  return {RoundedTo(to, Div(Convert(given, F32), Spread(Convert(c.In(1), F32), dims, axis, block)), zero,
                    c.Int("saturate", 1) != 0)};
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
Outputs OnMatMulInteger(Call& c) { return {IntegerMatMul(BytesOf(c, 0, 2), BytesOf(c, 1, 3))}; }
Outputs OnConvInteger(Call& c) { return {IntegerConvolution(c, BytesOf(c, 0, 2), BytesOf(c, 1, 3))}; }

namespace {
// x, its scale, its zero point, w, scale, zero point, the result's scale and zero point: sums in the result's steps,
// rounded. The scale of w may be one a column, which is `column` of the result, that of x one a row.
XlaOp InSteps(Call& c, XlaOp sum, int64_t row, int64_t column) {
  const Ints dims = DimsOf(sum);
  XlaOp x = Convert(c.In(1), F32), w = Convert(c.In(4), F32), y = Convert(c.In(6), F32);
  XlaOp step;
  if (Volume(DimsOf(x)) == 1 && Volume(DimsOf(y)) == 1) {  // of one number or one a column, not of each element
    const Ints few = DimsOf(w);
    step = Div(Mul(w, BroadcastTo(Reshape(x, {}), few)), BroadcastTo(Reshape(y, {}), few));
    step = Spread(step, dims, column, 0);
  } else {
    step = Div(Mul(Spread(x, dims, row, 0), Spread(w, dims, column, 0)), Spread(y, dims, row, 0));
  }
  return RoundedBy(c, Mul(Convert(sum, F32), step), 7);
}
}  // namespace

Outputs OnQLinearMatMul(Call& c) {
  const XlaOp sum = IntegerMatMul(BytesOf(c, 0, 2), BytesOf(c, 3, 5));
  const int64_t rank = RankOf(sum);
  return {InSteps(c, sum, std::max<int64_t>(rank - 2, 0), std::max<int64_t>(rank - 1, 0))};
}
Outputs OnQLinearConv(Call& c) {
  XlaOp sum = IntegerConvolution(c, BytesOf(c, 0, 2), BytesOf(c, 3, 5));
  if (c.Has(8)) sum = Add(sum, AlongAxis(Convert(c.In(8), S32), DimsOf(sum), 1));
  return {InSteps(c, sum, 1, 1)};
}

}  // namespace krafla::onnx
