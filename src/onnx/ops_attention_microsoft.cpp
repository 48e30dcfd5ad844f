// SPDX-License-Identifier: Apache-2.0
// com.microsoft: attention as ONNX Runtime's optimiser and its exporters of language models write it.
#include <cmath>

#include "onnx/attention.h"

namespace krafla::onnx {
namespace {

// Positions 0 .. length - 1 from `start` on, a number a batch: s64 [B, length].
XlaOp PositionsFrom(XlaOp start, int64_t batch, int64_t length) {
  XlaBuilder* b = start.builder();
  const Ints dims = {batch, length};
  return Add(BroadcastInDim(Convert(start, S64), dims, {0}), Iota(b, MakeShape(S64, dims), 1));
}
XlaOp TurnedAt(XlaOp x, XlaOp positions, XlaOp cosines, XlaOp sines, bool interleaved) {
  return TurnedBy(x, TakeAlong(cosines, positions, 0), TakeAlong(sines, positions, 0), interleaved);
}
double ScaleOf(Call& c, int64_t width) {
  const double scale = c.Float("scale", 0);
  return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(width));
}
// Scores of keys that a query does not see. `sees`: of the dimensions of the scores.
XlaOp Hidden(XlaOp score, XlaOp sees, double value) {
  return Select(sees, score, BroadcastTo(Like(score, value), DimsOf(score)));
}
// Shares of the scores [B, H, L, S], and of one more that no value has: `sinks`, a number a head, or 0 where it is not
// initialized.
XlaOp SharesBeside(XlaOp score, XlaOp sinks) {
  const Ints d = DimsOf(score);
  Ints one = d;
  one[3] = 1;
  const XlaOp sink = sinks.IsUninitialized() ? BroadcastTo(Like(score, 0), one)
                                             : BroadcastInDim(Convert(sinks, TypeOf(score)), one, {1});
  const XlaOp most = Max(ReduceBy(Fold::kMax, score, Ints{3}, true), sink);
  const XlaOp power = Exp(Sub(score, BroadcastTo(most, d)));
  const XlaOp sum = Add(ReduceBy(Fold::kSum, power, Ints{3}, true), Exp(Sub(sink, most)));
  return Div(power, BroadcastTo(sum, d));
}
XlaOp InF32(XlaOp x) { return IsSmallFloat(TypeOf(x)) ? Convert(x, F32) : x; }

// What a mask adds to scores of these dimensions: 0 in it hides a key. [B, S]; [B, L, S]; or [B], how many are there.
XlaOp OfMask(XlaOp mask, const Ints& d, double hidden) {
  XlaBuilder* b = mask.builder();
  const Ints m = DimsOf(mask);
  XlaOp sees;
  if (m.size() == 1 && m[0] == d[0]) {
    sees = Lt(Iota(b, MakeShape(S64, d), 3), BroadcastInDim(Convert(mask, S64), d, {0}));
  } else if (m.size() == 2 && m[0] == d[0] && m[1] == d[3]) {
    sees = BroadcastInDim(Ne(mask, Like(mask, 0)), d, {0, 3});
  } else if (m.size() == 3 && m[0] == d[0] && m[1] == d[2] && m[2] == d[3]) {
    sees = BroadcastInDim(Ne(mask, Like(mask, 0)), d, {0, 2, 3});
  } else {
    Refuse("A mask of {} dimensions for {} keys.", m.size(), d[3]);
  }
  return Select(sees, Filled(b, F32, d, 0), Filled(b, F32, d, hidden));
}
struct Attended {
  XlaOp result, keys, values;
};
// q, k, v: [B, H, L, D]; past ones come first. Input numbers; a number that the node has not is none.
Attended Attend(Call& c, XlaOp q, XlaOp k, XlaOp v, XlaOp past_key, XlaOp past_value, std::size_t mask,
                std::size_t bias) {
  if (!past_key.IsUninitialized()) k = ConcatInDim(c.b, {past_key, k}, 2);
  if (!past_value.IsUninitialized()) v = ConcatInDim(c.b, {past_value, v}, 2);
  const ElementType type = TypeOf(q);
  const Ints dq = DimsOf(q);
  XlaOp score = InF32(MatMulOf(Mul(q, Like(q, ScaleOf(c, dq[3]))), MoveAxis(k, 3, 2)));
  const Ints ds = DimsOf(score);
  // Together first, as ONNX Runtime adds them: beside -10000 a score has few digits.
  XlaOp more;
  if (c.Has(bias)) more = BroadcastTo(Convert(c.In(bias), F32), ds);
  if (c.Has(mask)) {
    const XlaOp hidden = OfMask(c.In(mask), ds, c.Float("mask_filter_value", -10000));
    more = more.IsUninitialized() ? hidden : Add(hidden, more);
  }
  if (!more.IsUninitialized()) score = Add(score, Convert(more, TypeOf(score)));
  if (c.Int("unidirectional", 0) != 0) {
    const Shape index = MakeShape(S64, ds);
    const XlaOp place = Add(Iota(c.b, index, 2), Filled(c.b, S64, ds, static_cast<double>(ds[3] - ds[2])));
    score = Hidden(score, Le(Iota(c.b, index, 3), place), -INFINITY);
  }
  const XlaOp shares = Convert(SoftmaxOver(score, 3, false), type);
  return {JoinHeads(MatMulOf(shares, v)), k, v};
}

}  // namespace

// x [B, L, H * D] or [B, H, L, D], positions [B, L] or the first of them, cosines and sines [most, half].
Outputs OnMicrosoftRotaryEmbedding(Call& c) {
  XlaOp x = c.In(0);
  const bool flat = RankOf(x) == 3;
  XlaOp cosines = c.In(2), sines = c.In(3);
  if (RankOf(cosines) != 2) Reject("A table of angles has {} dimensions.", RankOf(cosines));
  const int64_t named = c.Int("rotary_embedding_dim", 0), width = named > 0 ? named : 2 * DimsOf(cosines)[1];
  if (width <= 0 || width / 2 > DimsOf(cosines)[1])
    Reject("It turns {} elements by {} angles.", width, DimsOf(cosines)[1]);
  if (c.Int("is_packed_batching", 0) != 0) Refuse("Packed batches are not supported.");
  if (flat) {
    const int64_t heads = c.Int("num_heads", 0);
    x = SplitHeads(x, heads > 0 ? heads : std::max<int64_t>(DimsOf(x)[2] / width, 1));
  }
  const Ints d = DimsOf(x);
  if (d.size() != 4) Reject("RotaryEmbedding takes arrays of 3 or 4 dimensions.");
  cosines = SliceInDim(cosines, 0, width / 2, 1, 1);
  sines = SliceInDim(sines, 0, width / 2, 1, 1);
  XlaOp positions = c.In(1);
  if (RankOf(positions) == 1) positions = PositionsFrom(BroadcastTo(positions, Ints{d[0]}), d[0], d[2]);
  XlaOp y = TurnedAt(x, positions, cosines, sines, c.Int("interleaved", 0) != 0);
  if (const double scale = c.Float("scale", 1); scale != 1) y = Mul(y, Like(y, scale));
  return {flat ? JoinHeads(y) : y};
}

// query, key, value, bias of the three, mask, bias of the scores, past keys, past values.
Outputs OnMultiHeadAttention(Call& c) {
  const int64_t heads = c.Int("num_heads");
  if (!c.Has(1) || !c.Has(2)) Refuse("Packed queries, keys and values are not supported.");
  if (c.Has(8) || c.Has(9)) Refuse("Buffers that are shared, and beams, are not supported.");
  XlaOp q = c.In(0), k = c.In(1), v = c.In(2);
  if (RankOf(q) != 3 || heads <= 0) Reject("It takes queries of 3 dimensions.");
  if (c.Has(3)) {
    int64_t at = 0;
    for (XlaOp* x : {&q, &k, &v}) {
      if (RankOf(*x) != 3) continue;
      const int64_t width = DimsOf(*x)[2];
      *x = Add(*x, BroadcastTo(SliceInDim(c.In(3), at, at + width, 1, 0), DimsOf(*x)));
      at += width;
    }
  }
  q = SplitHeads(q, heads);
  if (RankOf(k) == 3) k = SplitHeads(k, heads);
  if (RankOf(v) == 3) v = SplitHeads(v, heads);
  if (RankOf(k) != 4 || RankOf(v) != 4) Refuse("Packed keys and values are not supported.");
  const Attended y = Attend(c, q, k, v, c.Has(6) ? c.In(6) : XlaOp(), c.Has(7) ? c.In(7) : XlaOp(), 4, 5);
  return {y.result, y.keys, y.values};
}

// x [B, L, n], weights [n, 3 * H * D], their bias, mask, past [2, B, H, P, D], bias of the scores.
Outputs OnMicrosoftAttention(Call& c) {
  const int64_t heads = c.Int("num_heads");
  if (c.Int("do_rotary", 0) != 0) Refuse("Rotation is not supported.");
  if (c.Has(6)) Refuse("A buffer that is shared is not supported.");
  XlaOp all = MatMulOf(c.In(0), c.In(1));
  const Ints d = DimsOf(all);
  if (d.size() != 3) Reject("It takes an array of 3 dimensions.");
  if (c.Has(2)) all = Add(all, BroadcastTo(c.In(2), d));
  const Ints widths = c.List("qkv_hidden_sizes").value_or(Ints(3, d[2] / 3));
  if (widths.size() != 3 || widths[0] + widths[1] + widths[2] != d[2]) Reject("Its weights are of {} columns.", d[2]);
  XlaOp parts[3];
  for (int64_t i = 0, at = 0; i < 3; at += widths[static_cast<std::size_t>(i++)])
    parts[i] = SplitHeads(SliceInDim(all, at, at + widths[static_cast<std::size_t>(i)], 1, 2), heads);
  XlaOp past[2];
  if (c.Has(4)) {
    const Ints dp = DimsOf(c.In(4));
    if (dp.size() != 5 || dp[0] != 2) Reject("The past has {} dimensions.", dp.size());
    for (int64_t i = 0; i < 2; ++i)
      past[i] = Reshape(SliceInDim(c.In(4), i, i + 1, 1, 0), {dp[1], dp[2], dp[3], dp[4]});
  }
  const Attended y = Attend(c, parts[0], parts[1], parts[2], past[0], past[1], 3, 5);
  if (!c.Wants(1)) return {y.result};
  Ints one = DimsOf(y.keys);
  one.insert(one.begin(), 1);
  return {y.result, ConcatInDim(c.b, {Reshape(y.keys, one), Reshape(y.values, one)}, 0)};
}

namespace {
// The cache [B, K, P, D] in `length` positions, with what is new at the places from `start` on, a number a batch.
XlaOp Appended(XlaOp past, XlaOp fresh, XlaOp start, int64_t length) {
  XlaBuilder* b = fresh.builder();
  const Ints d = DimsOf(fresh);
  XlaOp all;
  if (past.IsUninitialized()) {
    all = Filled(b, TypeOf(fresh), Ints{d[0], d[1], length, d[3]}, 0);
  } else {
    std::vector<std::pair<int64_t, int64_t>> more(4);
    more[2] = {0, length - DimsOf(past)[2]};
    all = more[2].second == 0 ? past : PadWith(past, Zero(b, TypeOf(past)), more);
  }
  const XlaOp zero = ConstantR0<int32_t>(b, 0);
  Outputs batches;
  for (int64_t i = 0; i < d[0]; ++i) {
    const XlaOp at = Reshape(SliceInDim(start, i, i + 1, 1, 0), {});
    batches.push_back(DynamicUpdateSlice(d[0] == 1 ? all : SliceInDim(all, i, i + 1, 1, 0),
                                         d[0] == 1 ? fresh : SliceInDim(fresh, i, i + 1, 1, 0),
                                         {zero, zero, at, zero}));
  }
  return batches.size() == 1 ? batches[0] : ConcatInDim(b, batches, 0);
}
}  // namespace

namespace {
XlaOp Whole(XlaOp like, double value) { return Filled(like.builder(), TypeOf(like), DimsOf(like), value); }
// How many of the last positions a cache of `capacity` rows holds after `total` of them, as the operator's definition
// has it: all while they fit, then so many that at least the window stays whenever some have to go.
XlaOp ResidentOf(XlaOp total, int64_t capacity, int64_t window) {
  const auto gone = static_cast<double>(capacity - window + 1);
  const XlaOp beyond = Sub(total, Whole(total, static_cast<double>(capacity)));
  const XlaOp times = Div(Add(beyond, Whole(total, gone - 1)), Whole(total, gone));
  return Select(Gt(beyond, Whole(total, 0)), Sub(total, Mul(times, Whole(total, gone))), total);
}
// Rows first .. first + count - 1 of [B, K, rows, D], `first` a number a batch.
XlaOp RowsFrom(XlaOp x, XlaOp first, int64_t count) {
  XlaBuilder* b = x.builder();
  const Ints d = DimsOf(x);
  const XlaOp zero = ConstantR0<int32_t>(b, 0);
  Outputs batches;
  for (int64_t i = 0; i < d[0]; ++i)
    batches.push_back(DynamicSlice(SliceInDim(x, i, i + 1, 1, 0),
                                   {zero, zero, Reshape(SliceInDim(first, i, i + 1, 1, 0), {}), zero},
                                   {1, d[1], count, d[3]}));
  return batches.size() == 1 ? batches[0] : ConcatInDim(b, batches, 0);
}

// Keys and values, with the past and what is new.
struct Cache {
  XlaOp keys, values;                  // [B, K, length, D]: what is attended to
  XlaOp present_keys, present_values;  // what the next step is given
  XlaOp start;                         // s32 [B]: the row of the first new key
};
// `before`, `total`: s32 [B], the positions before the new ones, and with them.
Cache CacheOf(Call& c, XlaOp k, XlaOp v, XlaOp before, XlaOp total) {
  const int64_t length = DimsOf(k)[2], past = c.Has(3) ? c.ShapeOf(3).dim(2) : 0;
  const XlaOp past_keys = c.Has(3) ? c.In(3) : XlaOp(), past_values = c.Has(4) ? c.In(4) : XlaOp();
  Cache out;
  if (c.Int("sliding_window_cache", 0) == 0) {
    int64_t whole = past + length;
    if (c.IsKnown(6)) {
      const Ints total_keys = c.KnownInts(6, "the number of keys");
      if (total_keys.size() != 1) Reject("The number of keys is {} numbers.", total_keys.size());
      whole = std::max(past, total_keys[0]);
    }
    if (whole < length) Reject("{} keys for {} queries.", whole, length);
    out.start = before;
    out.keys = out.present_keys = Appended(past_keys, k, before, whole);
    out.values = out.present_values = Appended(past_values, v, before, whole);
    return out;
  }
  const int64_t window = c.Int("local_window_size", -1);
  if (window < 1 || past < window) Reject("A cache of {} rows for a window of {}.", past, window);
  out.start = ResidentOf(before, past, window);
  out.keys = Appended(past_keys, k, out.start, past + length);
  out.values = Appended(past_values, v, out.start, past + length);
  const XlaOp first = Sub(Add(out.start, Sub(total, before)), ResidentOf(total, past, window));
  out.present_keys = RowsFrom(out.keys, first, past);
  out.present_values = RowsFrom(out.values, first, past);
  return out;
}
// Which keys a query sees: [B, H, L, S].
XlaOp SeenBy(Call& c, XlaOp start, const Ints& ds) {
  const Shape index = MakeShape(S32, ds);
  const XlaOp key = Iota(c.b, index, 3), first = BroadcastInDim(start, ds, {0});
  if (c.Int("causal", 1) == 0) return Lt(key, Add(first, Filled(c.b, S32, ds, static_cast<double>(ds[2]))));
  const XlaOp place = Add(Iota(c.b, index, 2), first), sees = Le(key, place);
  const int64_t window = c.Int("local_window_size", -1);
  return window < 0 ? sees : And(sees, Gt(key, Sub(place, Filled(c.b, S32, ds, static_cast<double>(window)))));
}
}  // namespace

// query (or all three side by side), key, value, past keys, past values, the number of keys less one of each batch, the
// most of them, cosines, sines, positions, bias of the scores, sinks.
Outputs OnGroupQueryAttention(Call& c) {
  const int64_t heads = c.Int("num_heads"), groups = c.Int("kv_num_heads");
  for (std::size_t i = 12; i < c.count(); ++i)
    if (c.Has(i)) Refuse("Its input {} is not supported.", i);
  if (c.Int("qk_output", 0) != 0) Refuse("Scores as a result are not supported.");
  if (heads <= 0 || groups <= 0 || heads % groups != 0) Reject("{} heads share {}.", heads, groups);
  for (const std::size_t i : {std::size_t{3}, std::size_t{4}})
    if (c.Has(i) && c.ShapeOf(i).rank() != 4) Reject("A cache of {} dimensions.", c.ShapeOf(i).rank());
  XlaOp q = c.In(0), k, v;
  const Ints dq = DimsOf(q);
  if (dq.size() != 3) Reject("It takes queries of 3 dimensions.");
  if (c.Has(1)) {
    k = c.In(1);
    v = c.In(2);
  } else {
    const int64_t width = dq[2] / (heads + 2 * groups), of_k = heads * width, of_v = of_k + groups * width;
    k = SliceInDim(q, of_k, of_v, 1, 2);
    v = SliceInDim(q, of_v, dq[2], 1, 2);
    q = SliceInDim(q, 0, of_k, 1, 2);
  }
  q = SplitHeads(q, heads);
  k = SplitHeads(k, groups);
  v = SplitHeads(v, groups);
  const int64_t batch = dq[0], length = dq[1];
  // Of a first prompt, whose queries may be padded at the end, there are no more keys than queries.
  const XlaOp given = Reshape(Convert(c.In(5), S32), {batch}), total = Add(given, Whole(given, 1));
  const XlaOp before = Max(Sub(total, Whole(given, static_cast<double>(length))), Whole(given, 0));
  if (c.Int("do_rotary", 0) != 0) {
    const XlaOp positions = c.Has(9) ? Reshape(c.In(9), {batch, length}) : PositionsFrom(before, batch, length);
    const bool interleaved = c.Int("rotary_interleaved", 0) != 0;
    q = TurnedAt(q, positions, c.In(7), c.In(8), interleaved);
    k = TurnedAt(k, positions, c.In(7), c.In(8), interleaved);
  }
  const Cache cache = CacheOf(c, k, v, before, total);
  const XlaOp scaled = Mul(q, Like(q, ScaleOf(c, DimsOf(q)[3])));
  XlaOp score = InF32(MatMulOf(scaled, MoveAxis(RepeatHeads(cache.keys, heads), 3, 2)));
  const Ints ds = DimsOf(score);
  score = SoftCapped(c, score);
  if (c.Has(10)) {
    if (c.Int("sliding_window_cache", 0) != 0) Refuse("A bias beside a cache as long as the window is not supported.");
    XlaOp bias = Convert(c.In(10), TypeOf(score));
    std::vector<std::pair<int64_t, int64_t>> more(4);
    if (RankOf(bias) == 4 && DimsOf(bias)[3] < ds[3]) {
      more[3] = {0, ds[3] - DimsOf(bias)[3]};
      bias = PadWith(bias, Zero(c.b, TypeOf(bias)), more);
    }
    score = Add(score, BroadcastTo(bias, ds));
  }
  score = Hidden(score, SeenBy(c, cache.start, ds), -INFINITY);
  const bool has_sinks = c.Has(11) || c.Int("smooth_softmax", 0) != 0;
  const XlaOp shares = has_sinks ? SharesBeside(score, c.Has(11) ? c.In(11) : XlaOp()) : SoftmaxOver(score, 3, false);
  const XlaOp y = MatMulOf(Convert(shares, TypeOf(v)), RepeatHeads(cache.values, heads));
  return {JoinHeads(y), cache.present_keys, cache.present_values};
}

}  // namespace krafla::onnx
