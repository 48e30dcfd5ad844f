// SPDX-License-Identifier: Apache-2.0
// Random numbers: HLO's rng, which draws others in every run. ONNX promises none of them, so `seed` has no meaning
// here.
#include "onnx/call.h"

namespace krafla::onnx {
namespace {

ElementType TypeOfDraw(Call& c, ElementType otherwise) {
  const Attribute* named = c.Find("dtype");
  const ElementType type = named != nullptr ? ToElementType(named->i) : otherwise;
  if (type == ElementType::kInvalid) Refuse("Its numbers are of {}, which HLO does not have.", TypeName(named->i));
  return type;
}
// The shape of what a node draws: its own, or that of its input (RandomNormalLike, RandomUniformLike).
Shape ShapeOfDraw(Call& c) {
  const bool is_like = c.count() > 0;
  const Ints dims = is_like ? DimsOf(c.ShapeOf(0)) : c.List("shape").value_or(Ints());
  if (std::ranges::any_of(dims, [](int64_t d) { return d < 0; })) Reject("A dimension is negative.");
  return MakeShape(TypeOfDraw(c, is_like ? c.TypeOf(0) : F32), dims);
}
using Draw = XlaOp (*)(XlaOp, XlaOp, const ShapeOrError&);
XlaOp Drawn(XlaBuilder* b, Draw draw, double first, double second, std::span<const int64_t> dims) {
  return draw(Number(b, F32, first), Number(b, F32, second), MakeShape(F32, dims));
}
// Of 0 to 1, without 1.
XlaOp Uniform(XlaBuilder* b, std::span<const int64_t> dims) { return Drawn(b, &RngUniform, 0, 1, dims); }
Outputs DrawnBy(Call& c, Draw draw, double first, double second) {
  c.LeaveToTheProgram();
  const Shape shape = ShapeOfDraw(c);
  return {Convert(Drawn(c.b, draw, first, second, DimsOf(shape)), shape.element_type())};
}

}  // namespace

Outputs OnRandomNormal(Call& c) { return DrawnBy(c, &RngNormal, c.Float("mean", 0), c.Float("scale", 1)); }
Outputs OnRandomUniform(Call& c) { return DrawnBy(c, &RngUniform, c.Float("low", 0), c.Float("high", 1)); }

// 1 with the probability that the input gives.
Outputs OnBernoulli(Call& c) {
  c.LeaveToTheProgram();
  const XlaOp p = Convert(c.In(0), F32);
  return {Convert(Lt(Uniform(c.b, DimsOf(p)), p), TypeOfDraw(c, c.TypeOf(0)))};
}

// Elements become zero with the probability `ratio`, and the others as much larger, while training, which may be known
// at run time only.
Outputs OnDropout(Call& c) {
  const XlaOp x = c.In(0);
  const Ints d = DimsOf(x);
  const bool may_train = c.Has(2) && !(c.IsKnown(2) && NumbersOf(c.Known(2, "the training mode"))[0] == 0);
  const auto all_kept = [&] { return BroadcastTo(Eq(Zero(c.b, S32), Zero(c.b, S32)), d); };
  if (!may_train) return c.Wants(1) ? Outputs{x, all_kept()} : Outputs{x};
  c.LeaveToTheProgram();
  const XlaOp ratio = c.Has(1) ? Reshape(Convert(c.In(1), F32), {}) : Number(c.b, F32, 0.5);
  const XlaOp trains = Reshape(Convert(c.In(2), PRED), {});
  const XlaOp keep = Or(Ge(Uniform(c.b, d), BroadcastTo(ratio, d)), BroadcastTo(Not(trains), d));
  const XlaOp scale = Select(trains, Div(Like(ratio, 1), Sub(Like(ratio, 1), ratio)), Like(ratio, 1));
  const XlaOp larger = Mul(x, BroadcastTo(Convert(scale, TypeOf(x)), d));
  return {Select(keep, larger, BroadcastTo(Like(x, 0), d)), keep};
}

// Classes by their unnormalised logarithms, the largest after noise with Gumbel's distribution.
Outputs OnMultinomial(Call& c) {
  c.LeaveToTheProgram();
  const XlaOp x = Convert(c.In(0), F32);
  const Ints d = DimsOf(x);
  const int64_t samples = c.Int("sample_size", 1);
  if (d.size() != 2 || d[1] == 0 || samples < 0) Reject("{} samples of {}.", samples, ShapeOf(x).ToString(false));
  const Ints each = {d[0], samples, d[1]};
  const XlaOp noise = Neg(Log(Neg(Log(Uniform(c.b, each)))));
  const XlaOp score = Add(BroadcastInDim(x, each, {0, 2}), noise);
  const XlaOp best = BroadcastTo(ReduceBy(Fold::kMax, score, Ints{2}, true), each);
  const XlaOp last = Filled(c.b, S32, each, static_cast<double>(d[1] - 1));
  const XlaOp place = Select(Eq(score, best), Iota(c.b, MakeShape(S32, each), 2), last);
  return {Convert(ReduceBy(Fold::kMin, place, Ints{2}, false), TypeOfDraw(c, S32))};
}

}  // namespace krafla::onnx
