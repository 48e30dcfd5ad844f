// SPDX-License-Identifier: Apache-2.0
// Operators of language models that carry a state from call to call: TensorScatter, CausalConvWithState,
// LinearAttention.
#include <cmath>

#include "onnx/attention.h"

namespace krafla::onnx {

// Since opset 24.
Outputs OnTensorScatter(Call& c) {
  const XlaOp cache = c.In(0), update = c.In(1);
  const Ints dc = DimsOf(cache), du = DimsOf(update);
  const auto rank = static_cast<int64_t>(dc.size());
  const int64_t axis = Axis(c.Int("axis", -2), rank);
  if (axis == 0) Reject("The axis is that of the batch.");
  const auto at = static_cast<std::size_t>(axis);
  Ints fit = du;
  if (du.size() == dc.size()) fit[at] = dc[at];
  if (fit != dc || du[at] > dc[at])
    Reject("An update {} of {}.", ShapeOf(update).ToString(false), ShapeOf(cache).ToString(false));
  const std::string mode = c.Text("mode", "linear");
  if (mode != "linear" && mode != "circular") Reject("The mode '{}'.", mode);
  const XlaOp begins = c.Has(2) ? Convert(c.In(2), S64) : Filled(c.b, S64, Ints{dc[0]}, 0);
  if (DimsOf(begins) != Ints{dc[0]}) Reject("{} places for a batch of {}.", ShapeOf(begins).ToString(false), dc[0]);
  if (dc[0] == 1 && mode == "linear") {
    Outputs starts(dc.size(), Zero(c.b, S64));
    starts[at] = Reshape(begins, {});
    return {DynamicUpdateSlice(cache, update, starts)};
  }
  // Places (batch, position) of rows of all other dimensions.
  const Ints each = {dc[0], du[at]};
  XlaOp position = Add(BroadcastInDim(begins, each, {0}), Iota(c.b, MakeShape(S64, each), 1));
  if (mode == "circular") {
    const XlaOp length = Filled(c.b, S64, each, static_cast<double>(dc[at]));
    position = Rem(position, length);
    position = Select(Lt(position, Like(position, 0)), Add(position, length), position);
  }
  const Ints point = {dc[0], du[at], 1};
  const XlaOp places =
      ConcatInDim(c.b, {Reshape(Iota(c.b, MakeShape(S64, each), 0), point), Reshape(position, point)}, 2);
  ScatterDimensionNumbers numbers;
  for (int64_t d = 2; d < rank; ++d) numbers.update_window_dims.push_back(d);
  numbers.inserted_window_dims = {0, axis};
  numbers.scatter_dims_to_operand_dims = {0, axis};
  numbers.index_vector_dim = 2;
  return {Scatter(cache, places, MoveAxis(update, axis, 1), Combiner("none", TypeOf(cache)), numbers)};
}

// Since opset 27. A convolution of each channel with what came before it.
Outputs OnCausalConvWithState(Call& c) {
  const XlaOp x = c.In(0), w = c.In(1);
  const Ints dx = DimsOf(x), dw = DimsOf(w);
  if (dx.size() != 3 || dw.size() != 3 || dw[0] != dx[1] || dw[1] != 1 || dw[2] < 1)
    Reject("A kernel {} for {}.", ShapeOf(w).ToString(false), ShapeOf(x).ToString(false));
  const int64_t before = dw[2] - 1;
  const Ints past_dims = {dx[0], dx[1], before};
  const XlaOp past = c.Has(3) ? c.In(3) : Filled(c.b, TypeOf(x), past_dims, 0);
  if (DimsOf(past) != past_dims) Reject("A past {}.", ShapeOf(past).ToString(false));
  const XlaOp all = ConcatInDim(c.b, {past, x}, 2);
  const ElementType type = TypeOf(x), work = IsSmallFloat(type) ? F32 : type;
  XlaOp y = ConvGeneral(all, w, Ints{1}, std::vector<std::pair<int64_t, int64_t>>{{0, 0}},
                        DefaultConvDimensionNumbers(1), dx[1], 1, nullptr, work);
  if (c.Has(2)) y = Add(y, AlongAxis(Convert(c.In(2), work), dx, 1));
  const std::string activation = c.Text("activation", "none");
  if (activation == "silu" || activation == "swish") y = Mul(y, Logistic(y));
  else if (activation != "none") Reject("The activation '{}'.", activation);
  return {Convert(y, type), SliceInDim(all, dx[2], dx[2] + before, 1, 2)};
}

namespace {
// [B, T, H * D] as [T, B, H, D].
XlaOp TurnsOf(XlaOp x, int64_t heads, ElementType type) {
  const Ints d = DimsOf(x);
  if (d.size() != 3 || heads <= 0 || d[2] % heads != 0) Reject("{} heads of {}.", heads, ShapeOf(x).ToString(false));
  return Transpose(Reshape(Convert(x, type), {d[0], d[1], heads, d[2] / heads}), {1, 0, 2, 3});
}
// One of them, [B, H, D].
XlaOp TurnAt(XlaOp turns, XlaOp at) {
  const Ints d = DimsOf(turns);
  const XlaOp zero = Like(at, 0);
  return Reshape(DynamicSlice(turns, {at, zero, zero, zero}, {1, d[1], d[2], d[3]}), {d[1], d[2], d[3]});
}

// One turn of the recurrence over the state s[B, H, K, V].
struct Recurrence {
  bool is_gated = false, is_delta = false;
  double scale = 1;
  int64_t shared = 1;  // heads of queries for one of keys

  // Parts: queries [B, H * shared, K], keys, values, decays (of one or K numbers) and rates (of one head or all).
  std::pair<XlaOp, XlaOp> Turn(XlaOp s, XlaOp q, XlaOp k, XlaOp v, XlaOp decay, XlaOp rate) const {
    const Ints d = DimsOf(s), rows = {d[0], d[1], d[2]}, columns = {d[0], d[1], d[3]};
    const auto down = [&](XlaOp x) { return BroadcastInDim(x, d, {0, 1, 2}); };
    const auto across = [&](XlaOp x) { return BroadcastInDim(x, d, {0, 1, 3}); };
    if (is_gated) s = Mul(s, down(BroadcastTo(Exp(decay), rows)));
    if (is_delta) v = Mul(BroadcastTo(rate, columns), Sub(v, ReduceBy(Fold::kSum, Mul(s, down(k)), Ints{2}, false)));
    s = Add(s, Mul(down(k), across(v)));
    const XlaOp heads = Reshape(q, {d[0], d[1], shared, d[2]});
    const XlaOp y = Mul(MatMulOf(heads, s), Like(q, scale));  // [B, H, shared, V]
    return {s, Reshape(y, {d[0], 1, d[1] * shared * d[3]})};
  }
};
}  // namespace

// Since opset 27: token after token, which is what the operator means.
Outputs OnLinearAttention(Call& c) {
  const std::string rule = c.Text("update_rule", "gated_delta");
  Recurrence form{.is_gated = rule == "gated" || rule == "gated_delta",
                  .is_delta = rule == "delta" || rule == "gated_delta"};
  if (!form.is_gated && !form.is_delta && rule != "linear") Reject("The update rule '{}'.", rule);
  const int64_t q_heads = c.Int("q_num_heads"), heads = c.Int("kv_num_heads");
  if (heads <= 0 || q_heads % heads != 0) Reject("{} heads share {} heads of keys.", q_heads, heads);
  form.shared = q_heads / heads;
  if (form.is_delta && c.ShapeOf(5).rank() == 0) Reject("A rate without dimensions.");
  const ElementType type = c.TypeOf(0), work = IsSmallFloat(type) ? F32 : type;
  const Outputs turns = {
      TurnsOf(c.In(0), q_heads, work), TurnsOf(c.In(1), heads, work), TurnsOf(c.In(2), heads, work),
      form.is_gated ? TurnsOf(c.In(4), heads, work) : XlaOp(),
      form.is_delta ? TurnsOf(c.In(5), DimsOf(c.ShapeOf(5)).back() == 1 ? 1 : heads, work) : XlaOp()};
  const Ints dk = DimsOf(turns[1]), dv = DimsOf(turns[2]);
  form.scale = c.Float("scale", 0);
  if (form.scale == 0) form.scale = 1 / std::sqrt(static_cast<double>(dk[3]));
  const Ints state_dims = {dk[1], heads, dk[3], dv[3]};
  const ElementType state_type = c.Has(3) ? c.TypeOf(3) : type;
  const XlaOp state = c.Has(3) ? Convert(c.In(3), work) : Filled(c.b, work, state_dims, 0);
  if (DimsOf(state) != state_dims) Reject("A state {}.", ShapeOf(state).ToString(false));
  const int64_t tokens = dk[0], width = q_heads * dv[3];
  const auto turn = [&](XlaOp s, const Outputs& from, XlaOp at) {
    Outputs part;
    for (const XlaOp& one : from) part.push_back(one.IsUninitialized() ? XlaOp() : TurnAt(one, at));
    return form.Turn(s, part[0], part[1], part[2], part[3], part[4]);
  };
  if (tokens == 1) {
    const auto [s, y] = turn(state, turns, Zero(c.b, S32));
    return {Convert(y, type), Convert(s, state_type)};
  }
  Outputs init = {Zero(c.b, S32), state, Filled(c.b, work, Ints{dk[1], tokens, width}, 0)};
  for (const XlaOp& one : turns)
    if (!one.IsUninitialized()) init.push_back(one);
  const auto tokens_left = [&](const Outputs& now) { return Lt(now[0], Like(now[0], static_cast<double>(tokens))); };
  const auto token = [&](const Outputs& now) {
    Outputs from;
    std::size_t used = 3;
    for (const XlaOp& one : turns) from.push_back(one.IsUninitialized() ? XlaOp() : now[used++]);
    const XlaOp at = now[0], zero = Like(at, 0);
    const auto [s, y] = turn(now[1], from, at);
    Outputs next = now;
    next[0] = Add(at, Like(at, 1));
    next[1] = s;
    next[2] = DynamicUpdateSlice(now[2], y, {zero, at, zero});
    return next;
  };
  const Outputs last = LoopOver(init, tokens_left, token);
  return {Convert(last[2], type), Convert(last[1], state_type)};
}

}  // namespace krafla::onnx
