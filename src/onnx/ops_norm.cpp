// SPDX-License-Identifier: Apache-2.0
// Normalisations.
#include <algorithm>

#include "onnx/call.h"

namespace krafla::onnx {
namespace {

// The axis of channels of [N, C, ...]; a vector along it.
XlaOp Channel(Call& c, std::size_t input, const Ints& dims) {
  if (dims.size() < 2) Reject("Its operand must be [N, C, ...].");
  return AlongAxis(c.In(input), dims, 1);
}
// (x - mean) / sqrt(variance + epsilon) over some axes; the two with kept dimensions.
struct Normalized {
  XlaOp value, mean, inverse;
};
Normalized Normalize(XlaOp x, const Ints& axes, double epsilon) {
  const Ints dims = DimsOf(x);
  const XlaOp mean = MeanOf(x, axes, true), centred = Sub(x, BroadcastTo(mean, dims));
  const XlaOp variance = MeanOf(Mul(centred, centred), axes, true);
  const XlaOp inverse = Rsqrt(Add(variance, Like(x, epsilon)));
  return {Mul(centred, BroadcastTo(inverse, dims)), mean, inverse};
}
XlaOp Widened(XlaOp x) { return IsSmallFloat(TypeOf(x)) ? Convert(x, F32) : x; }

}  // namespace

Outputs OnBatchNormalization(Call& c) {
  const XlaOp x = c.In(0);
  const Ints dims = DimsOf(x);
  const ElementType type = TypeOf(x), work = IsSmallFloat(type) ? F32 : type;
  auto vector = [&](std::size_t i) { return Convert(c.In(i), work); };
  if (dims.empty()) Reject("Its operand must be [N, C, ...].");
  const int64_t axis = dims.size() == 1 ? 0 : 1;
  const double epsilon = c.Float("epsilon", 1e-5F);
  XlaOp mean = vector(3), variance = vector(4);
  Outputs more;
  if (c.Int("training_mode", 0) != 0) {
    const double keep = c.Float("momentum", 0.9F);
    Ints axes = Range(0, static_cast<int64_t>(dims.size()));
    axes.erase(axes.begin() + axis);
    const XlaOp wide = Convert(x, work), batch_mean = MeanOf(wide, axes, false);
    const XlaOp centred = Sub(wide, AlongAxis(batch_mean, dims, axis));
    const XlaOp batch_variance = MeanOf(Mul(centred, centred), axes, false);
    auto mixed = [&](XlaOp old, XlaOp now, std::size_t i) {
      return Convert(Add(Mul(old, Like(old, keep)), Mul(now, Like(now, 1 - keep))), c.TypeOf(i));
    };
    more = {mixed(mean, batch_mean, 3), mixed(variance, batch_variance, 4)};
    mean = batch_mean;
    variance = batch_variance;
  }
  // One factor and one summand a channel: the convolution before takes both.
  const XlaOp factor = Mul(vector(1), Rsqrt(Add(variance, Like(variance, epsilon))));
  const XlaOp summand = Sub(vector(2), Mul(mean, factor));
  Outputs out = {
      Convert(Add(Mul(Convert(x, work), AlongAxis(factor, dims, axis)), AlongAxis(summand, dims, axis)), type)};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}
Outputs OnInstanceNormalization(Call& c) {
  const XlaOp x = c.In(0);
  const Ints dims = DimsOf(x);
  const ElementType type = TypeOf(x);
  const XlaOp normal =
      Normalize(Widened(x), Range(2, static_cast<int64_t>(dims.size())), c.Float("epsilon", 1e-5F)).value;
  return {Convert(
      Add(Mul(normal, Convert(Channel(c, 1, dims), TypeOf(normal))), Convert(Channel(c, 2, dims), TypeOf(normal))),
      type)};
}
namespace {
// Times one input, and with another one, if the node has it, added.
XlaOp ScaledAndMoved(Call& c, XlaOp normal, std::size_t scale, std::size_t offset) {
  const Ints dims = DimsOf(normal);
  const auto spread = [&](std::size_t i) { return BroadcastTo(Convert(c.In(i), TypeOf(normal)), dims); };
  const XlaOp out = Mul(normal, spread(scale));
  return c.Has(offset) ? Add(out, spread(offset)) : out;
}
}  // namespace
Outputs OnLayerNormalization(Call& c) {
  XlaOp given = c.In(0);
  const ElementType type = TypeOf(given);
  const XlaOp x = Widened(given);
  const Ints dims = DimsOf(x);
  const int64_t rank = RankOf(x), axis = Axis(c.Int("axis", -1), rank);
  const Normalized normal = Normalize(x, Range(axis, rank), c.Float("epsilon", 1e-5F));
  const XlaOp out = ScaledAndMoved(c, Convert(normal.value, TypeOf(x)), 1, 2);
  const ElementType stash = ToElementType(c.Int("stash_type", 1));
  if (!IsFloat(stash)) Refuse("A stash_type of {}.", TypeName(c.Int("stash_type")));
  return {Convert(out, type), Convert(normal.mean, stash), Convert(normal.inverse, stash)};
}
namespace {
XlaOp RmsOf(XlaOp x, const Ints& axes, double epsilon) {
  return Mul(x, BroadcastTo(Rsqrt(Add(MeanOf(Mul(x, x), axes, true), Like(x, epsilon))), DimsOf(x)));
}
}  // namespace
Outputs OnRmsNormalization(Call& c) {
  const XlaOp given = c.In(0), x = Widened(given);
  const int64_t rank = RankOf(x);
  const XlaOp normal = RmsOf(x, Range(Axis(c.Int("axis", -1), rank), rank), c.Float("epsilon", 1e-5F));
  return {Convert(Mul(normal, BroadcastTo(Convert(c.In(1), TypeOf(x)), DimsOf(x))), TypeOf(given))};
}
// com.microsoft: of x + skip (+ bias), which is the fourth result.
Outputs OnSkipLayerNormalization(Call& c) {
  const bool simplified = c.node.op_type == "SkipSimplifiedLayerNormalization";
  XlaOp sum = c.In(0);
  const ElementType type = TypeOf(sum);
  const Ints dims = DimsOf(sum);
  sum = Add(sum, BroadcastTo(c.In(1), dims));
  const std::size_t bias = simplified ? 3 : 4;
  if (c.Has(bias)) sum = Add(sum, BroadcastTo(c.In(bias), dims));
  const XlaOp x = Widened(sum);
  const Ints axes = {RankOf(x) - 1};
  const double epsilon = c.Float("epsilon", 1e-12F);
  const XlaOp normal = simplified ? RmsOf(x, axes, epsilon) : Normalize(x, axes, epsilon).value;
  // Of the simplified one the third input is a bias, which is in the sum.
  const std::size_t offset = simplified ? c.count() : 3;
  return {Convert(ScaledAndMoved(c, normal, 2, offset), type), XlaOp(), XlaOp(), sum};
}
// com.microsoft: ids of words and segments, their tables and that of the places, scale, offset, a mask, places.
Outputs OnEmbedLayerNormalization(Call& c) {
  const Ints d = DimsOf(c.In(0));
  if (d.size() != 2 || c.ShapeOf(2).rank() != 2 || c.ShapeOf(3).rank() != 2) Reject("It takes ids of 2 dimensions.");
  XlaOp sum = TakeAlong(c.In(2), c.In(0), 0);
  const Ints dims = DimsOf(sum);
  const XlaOp places = c.Has(8) ? TakeAlong(c.In(3), c.In(8), 0) : SliceInDim(c.In(3), 0, d[1], 1, 0);
  sum = Add(sum, BroadcastTo(places, dims));
  if (c.Has(1)) sum = Add(sum, TakeAlong(c.In(4), c.In(1), 0));
  const XlaOp x = Widened(sum);
  const XlaOp out = ScaledAndMoved(c, Normalize(x, Ints{2}, c.Float("epsilon", 1e-12F)).value, 5, 6);
  const XlaOp counts =
      c.Has(7) ? ReduceBy(Fold::kSum, Convert(c.In(7), S32), Ints{1}, false) : Filled(c.b, S32, Ints{d[0]}, 0);
  return {Convert(out, TypeOf(sum)), counts, sum};
}
Outputs OnGroupNormalization(Call& c) {
  const XlaOp given = c.In(0), x = Widened(given);
  const Ints dims = DimsOf(x);
  const int64_t groups = c.Int("num_groups");
  if (dims.size() < 2 || groups <= 0 || dims[1] % groups != 0) Reject("It has {} groups.", groups);
  Ints grouped = {dims[0], groups, dims[1] / groups};
  grouped.insert(grouped.end(), dims.begin() + 2, dims.end());
  XlaOp normal =
      Normalize(Reshape(x, grouped), Range(2, static_cast<int64_t>(grouped.size())), c.Float("epsilon", 1e-5F)).value;
  normal = Reshape(normal, dims);
  auto scale = [&](std::size_t i) {
    const XlaOp vector = Convert(c.In(i), TypeOf(x));
    if (c.opset >= 21) return AlongAxis(vector, dims, 1);
    // Until opset 20 there is one a group.
    const XlaOp each = BroadcastInDim(vector, {groups, dims[1] / groups}, {0});
    return AlongAxis(Reshape(each, {dims[1]}), dims, 1);
  };
  return {Convert(Add(Mul(normal, scale(1)), scale(2)), TypeOf(given))};
}
Outputs OnMeanVarianceNormalization(Call& c) {
  const XlaOp x = c.In(0);
  Ints axes = c.List("axes").value_or(Ints{0, 2, 3});
  for (int64_t& axis : axes) axis = Axis(axis, RankOf(x));
  const Ints dims = DimsOf(x);
  const XlaOp mean = MeanOf(x, axes, true), centred = Sub(x, BroadcastTo(mean, dims));
  const XlaOp deviation = Sqrt(MeanOf(Mul(centred, centred), axes, true));
  return {Div(centred, BroadcastTo(Add(deviation, Like(x, 1e-9)), dims))};
}
Outputs OnLpNormalization(Call& c) {
  const XlaOp x = c.In(0);
  const int64_t axis = Axis(c.Int("axis", -1), RankOf(x)), p = c.Int("p", 2);
  if (p != 1 && p != 2) Refuse("A norm of order {}.", p);
  XlaOp norm = ReduceBy(Fold::kSum, p == 1 ? Abs(x) : Mul(x, x), Ints{axis}, true);
  if (p == 2) norm = Sqrt(norm);
  norm = BroadcastTo(norm, DimsOf(x));
  return {Select(Eq(norm, Like(norm, 0)), BroadcastTo(Like(x, 0), DimsOf(x)), Div(x, norm))};
}
Outputs OnLrn(Call& c) {
  const XlaOp x = c.In(0);
  const Ints dims = DimsOf(x);
  const int64_t size = c.Int("size");
  if (dims.size() < 2 || size <= 0 || size > (1 << 20)) Reject("A size of {}.", size);
  Ints window(dims.size(), 1), ones = window;
  window[1] = size;
  std::vector<std::pair<int64_t, int64_t>> padding(dims.size());
  padding[1] = {(size - 1) / 2, size - 1 - (size - 1) / 2};
  const XlaOp sum =
      ReduceWindowWithGeneralPadding(Mul(x, x), Like(x, 0), Adder(TypeOf(x)), window, ones, ones, ones, padding);
  const double alpha = c.Float("alpha", 1e-4F), beta = c.Float("beta", 0.75F), bias = c.Float("bias", 1);
  const XlaOp base = Add(Mul(sum, Like(sum, alpha / static_cast<double>(size))), Like(sum, bias));
  return {Div(x, Pow(base, BroadcastTo(Like(base, beta), dims)))};
}

}  // namespace krafla::onnx
