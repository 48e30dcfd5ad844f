// SPDX-License-Identifier: Apache-2.0
// Attention and what turns its queries and keys: ONNX's operators.
#include <cmath>

#include "onnx/attention.h"

namespace krafla::onnx {

XlaOp SplitHeads(XlaOp x, int64_t heads) {
  const Ints d = DimsOf(x);
  if (d.size() != 3 || heads <= 0 || d[2] % heads != 0) Reject("{} heads of {} dimensions.", heads, d.size());
  return Transpose(Reshape(x, {d[0], d[1], heads, d[2] / heads}), {0, 2, 1, 3});
}
XlaOp JoinHeads(XlaOp x) {
  const Ints d = DimsOf(x);
  return Reshape(Transpose(x, {0, 2, 1, 3}), {d[0], d[2], d[1] * d[3]});
}
XlaOp RepeatHeads(XlaOp x, int64_t heads) {
  const Ints d = DimsOf(x);
  if (d[1] == heads) return x;
  if (d[1] <= 0 || heads % d[1] != 0) Reject("{} heads share {} heads of keys.", heads, d[1]);
  const int64_t each = heads / d[1];
  return Reshape(BroadcastInDim(x, {d[0], d[1], each, d[2], d[3]}, {0, 1, 3, 4}), {d[0], heads, d[2], d[3]});
}
XlaOp SoftCapped(Call& c, XlaOp score) {
  const double cap = c.Float("softcap", 0);
  return cap == 0 ? score : Mul(Tanh(Div(score, Like(score, cap))), Like(score, cap));
}
XlaOp TurnedBy(XlaOp x, XlaOp cosine, XlaOp sine, bool interleaved) {
  const Ints d = DimsOf(x);
  const int64_t half = DimsOf(cosine).back(), width = 2 * half;
  if (width > d[3]) Reject("It turns {} of {} elements.", width, d[3]);
  const auto table = [&](XlaOp t) { return BroadcastInDim(t, {d[0], d[1], d[2], half}, {0, 2, 3}); };
  const XlaOp c = table(cosine), s = table(sine), turned = SliceInDim(x, 0, width, 1, 3);
  const XlaOp a = interleaved ? SliceInDim(turned, 0, width, 2, 3) : SliceInDim(turned, 0, half, 1, 3);
  const XlaOp b = interleaved ? SliceInDim(turned, 1, width, 2, 3) : SliceInDim(turned, half, width, 1, 3);
  const XlaOp real = Sub(Mul(c, a), Mul(s, b)), imaginary = Add(Mul(s, a), Mul(c, b));
  XlaOp y;
  if (interleaved) {
    const Ints one = {d[0], d[1], d[2], half, 1};
    y = Reshape(ConcatInDim(x.builder(), {Reshape(real, one), Reshape(imaginary, one)}, 4), {d[0], d[1], d[2], width});
  } else {
    y = ConcatInDim(x.builder(), {real, imaginary}, 3);
  }
  return width < d[3] ? ConcatInDim(x.builder(), {y, SliceInDim(x, width, d[3], 1, 3)}, 3) : y;
}

namespace {
// The scores [B, H, L, S] with the mask, the causal order and the ends of padded keys.
XlaOp Masked(Call& c, XlaOp score) {
  const Ints ds = DimsOf(score);
  const ElementType type = TypeOf(score);
  const XlaOp none = BroadcastTo(Lowest(c.b, type), ds);
  const Shape index = MakeShape(S64, ds);
  if (c.Has(3)) {
    XlaOp mask = c.In(3);
    const Ints dm = DimsOf(mask);
    if (TypeOf(mask) == PRED) mask = Select(mask, BroadcastTo(Zero(c.b, type), dm), BroadcastTo(Lowest(c.b, type), dm));
    if (!dm.empty() && dm.back() < ds[3]) {
      std::vector<std::pair<int64_t, int64_t>> padding(dm.size());
      padding.back() = {0, ds[3] - dm.back()};
      mask = PadWith(mask, Lowest(c.b, type), padding);
    }
    score = Add(score, BroadcastTo(mask, ds));
  }
  XlaOp ends;
  if (c.Has(6)) {
    ends = BroadcastInDim(Convert(c.In(6), S64), ds, {0});
    score = Select(Lt(Iota(c.b, index, 3), ends), score, none);
  }
  const bool is_causal = c.Int("is_causal", 0) != 0;
  const int64_t left = c.Int("left_window_size", -1), right = c.Int("right_window_size", -1);  // since opset 25
  if (left < -1 || right < -1) Reject("A window of {} and {} positions.", left, right);
  if (!is_causal && left < 0 && right < 0) return score;
  const XlaOp rows = Iota(c.b, index, 2), columns = Iota(c.b, index, 3);
  const int64_t past = c.Has(4) ? c.ShapeOf(4).dim(2) : 0;
  const XlaOp offset =
      c.Has(6) ? Sub(ends, Like(ends, static_cast<double>(ds[2]))) : Filled(c.b, S64, ds, static_cast<double>(past));
  const XlaOp place = Add(rows, offset);
  if (is_causal) score = Select(Le(columns, place), score, none);
  if (left >= 0) score = Select(Le(Sub(place, columns), Filled(c.b, S64, ds, static_cast<double>(left))), score, none);
  if (right >= 0)
    score = Select(Le(Sub(columns, place), Filled(c.b, S64, ds, static_cast<double>(right))), score, none);
  return score;
}
}  // namespace
// Since opset 23.
Outputs OnAttention(Call& c) {
  XlaOp q = c.In(0), k = c.In(1), v = c.In(2);
  const ElementType type = TypeOf(q);
  const bool flat = RankOf(q) == 3;
  if (flat) {
    q = SplitHeads(q, c.Int("q_num_heads"));
    k = SplitHeads(k, c.Int("kv_num_heads"));
    v = SplitHeads(v, c.Int("kv_num_heads"));
  }
  if (RankOf(q) != 4 || RankOf(k) != 4 || RankOf(v) != 4) Reject("Attention takes arrays of 3 or 4 dimensions.");
  if (c.Has(4)) k = ConcatInDim(c.b, {c.In(4), k}, 2);
  if (c.Has(5)) v = ConcatInDim(c.b, {c.In(5), v}, 2);
  const XlaOp present_key = k, present_value = v;
  const Ints dq = DimsOf(q);
  k = RepeatHeads(k, dq[1]);
  v = RepeatHeads(v, dq[1]);
  const double scale = c.Float("scale", 1 / std::sqrt(static_cast<double>(dq[3])));
  const double root = std::sqrt(scale);
  XlaOp score = MatMulOf(Mul(q, Like(q, root)), MoveAxis(Mul(k, Like(k, root)), 3, 2));
  const Ints ds = DimsOf(score);
  XlaOp matched[4];  // what the fourth result may be asked to show
  matched[0] = score;
  score = SoftCapped(c, score);
  matched[1] = score;
  score = Masked(c, score);
  matched[2] = score;
  const ElementType work = IsSmallFloat(type) ? F32 : type;
  // A row that sees nothing gives zeros.
  const XlaOp seen = Gt(ReduceBy(Fold::kMax, score, Ints{3}, true), Lowest(c.b, type));
  const XlaOp shares = Convert(SoftmaxOver(Convert(score, work), 3, false), type);
  score = Select(BroadcastTo(seen, ds), shares, BroadcastTo(Zero(c.b, type), ds));
  matched[3] = score;
  XlaOp y = MatMulOf(score, v);
  if (flat) y = JoinHeads(y);
  const int64_t mode = c.Int("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) Reject("An output mode of {}.", mode);
  return {y, present_key, present_value, matched[mode]};
}
Outputs OnRotaryEmbedding(Call& c) {
  XlaOp x = c.In(0);
  const Ints given = DimsOf(x);
  const bool flat = given.size() == 3;
  if (flat) x = SplitHeads(x, c.Int("num_heads"));
  const Ints d = DimsOf(x);  // B, H, L, D
  if (d.size() != 4) Reject("RotaryEmbedding takes arrays of 3 or 4 dimensions.");
  const int64_t named = c.Int("rotary_embedding_dim", 0), width = named == 0 ? d[3] : named, half = width / 2;
  if (width <= 0 || width > d[3]) Reject("It turns {} of {} elements.", width, d[3]);
  const auto table = [&](std::size_t i) {
    XlaOp t = c.In(i);
    if (c.Has(3)) t = TakeAlong(t, c.In(3), 0);
    return SliceInDim(t, 0, half, 1, RankOf(t) - 1);
  };
  const XlaOp y = TurnedBy(x, table(1), table(2), c.Int("interleaved", 0) != 0);
  return {flat ? JoinHeads(y) : y};
}

}  // namespace krafla::onnx
