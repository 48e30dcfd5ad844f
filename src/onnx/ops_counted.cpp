// SPDX-License-Identifier: Apache-2.0
// Results whose size depends on the values: NonZero, Compress, NonMaxSuppression; Unique of known values only. An array
// as large as the result can be, with a dimension of run-time size. Of known values the evaluator makes what it is.
#include <algorithm>
#include <cmath>
#include <map>

#include "onnx/call.h"

namespace krafla::onnx {
namespace {

// The places of the true ones among flags pred[n], in order, and how many they are. Behind them lie any places within
// n. There are two at least: operations drop a run-time size of a dimension of 1 where they find the shape of a result,
// and cannot tell that dimension from one that is added.
struct Places {
  XlaOp at, count;  // s32[max(n, 2)], or s32[0]; s32[]
};
Places PlacesOf(XlaOp flags) {
  XlaBuilder* b = flags.builder();
  const Ints n = DimsOf(flags);
  if (n[0] > INT32_MAX) Reject("{} elements are too many to number.", n[0]);
  const XlaOp index = Iota(b, S32, n[0]), last = Number(b, S32, static_cast<double>(std::max<int64_t>(n[0] - 1, 0)));
  XlaBuilder order("order");
  const XlaOp x = Parameter(&order, 0, Shape::MakeScalar(S32), "x"),
              y = Parameter(&order, 1, Shape::MakeScalar(S32), "y");
  const XlaComputation less = Need(order.Build(Lt(x, y)));
  const XlaOp behind = BroadcastTo(Number(b, S32, static_cast<double>(n[0])), n);
  const XlaOp sorted = n[0] == 0 ? index : Sort({Select(flags, index, behind)}, less, 0);
  XlaOp at = Min(sorted, BroadcastTo(last, n));
  if (n[0] == 1) at = ConcatInDim(b, {at, at}, 0);
  return {at, ReduceBy(Fold::kSum, Convert(flags, S32), Ints{0}, false)};
}

// Pred, of the same size: what is not 0, and lies within the run-time sizes.
XlaOp TrueWithin(XlaOp x) {
  XlaOp flags = TypeOf(x) == PRED ? x : Ne(x, Like(x, 0));
  for (int64_t d = 0; d < RankOf(x); ++d) flags = FilledBehind(flags, d, Zero(x.builder(), PRED));
  return flags;
}

}  // namespace

Outputs OnNonZero(Call& c) {
  const XlaOp flags = TrueWithin(c.In(0));
  const Ints dims = DimsOf(flags);
  const int64_t all = Volume(dims);
  const Places places = PlacesOf(Reshape(flags, {all}));
  const int64_t most = ShapeOf(places.at).dim(0);
  Outputs rows;
  int64_t inner = all;
  for (int64_t d : dims) {
    inner = d == 0 ? 1 : inner / d;
    const XlaOp at = Div(places.at, Like(places.at, static_cast<double>(inner)));
    rows.push_back(Reshape(Convert(Rem(at, Like(at, static_cast<double>(std::max<int64_t>(d, 1)))), S64), {1, most}));
  }
  if (rows.empty()) return {SetDimensionSize(Filled(c.b, S64, Ints{0, most}, 0), places.count, 1)};
  return {SetDimensionSize(ConcatInDim(c.b, rows, 0), places.count, 1)};
}

Outputs OnCompress(Call& c) {
  XlaOp x = c.In(0);
  int64_t axis = 0;
  if (c.Find("axis") == nullptr) x = Reshaped(x, Ints{Volume(DimsOf(x))});
  else axis = Axis(c.Int("axis"), RankOf(x));
  const XlaOp flags = c.In(1);
  if (RankOf(flags) != 1 || ShapeOf(flags).dim(0) > ShapeOf(x).dim(axis))
    Reject("The condition {} is longer than the dimension.", ShapeOf(flags).ToString(false));
  const Places places = PlacesOf(TrueWithin(flags));
  return {SetDimensionSize(TakeAlong(x, places.at, axis), places.count, axis)};
}

Outputs OnUnique(Call& c) {
  const Literal& x = c.Known(0, "whose elements are counted");
  const Shape& shape = x.shape();
  const std::vector<double> numbers = NumbersOf(x);
  // Rows along the axis; without one, elements.
  const bool flat = c.Find("axis") == nullptr;
  const int64_t axis = flat ? 0 : Axis(c.Int("axis"), shape.rank());
  const int64_t count = flat ? shape.element_count() : shape.dim(axis);
  std::vector<std::vector<double>> rows(static_cast<std::size_t>(count));
  Ints at(static_cast<std::size_t>(shape.rank()));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (flat) {
      rows[i].push_back(numbers[i]);
      continue;
    }
    DelinearizeIndex(static_cast<int64_t>(i), shape.dims(), at);
    rows[static_cast<std::size_t>(at[static_cast<std::size_t>(axis)])].push_back(numbers[i]);
  }
  std::map<std::vector<double>, int64_t> numbered;
  Ints first, inverse, counts;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto [entry, is_new] = numbered.emplace(rows[i], static_cast<int64_t>(first.size()));
    if (is_new) first.push_back(static_cast<int64_t>(i)), counts.push_back(0);
    inverse.push_back(entry->second);
    ++counts[static_cast<std::size_t>(entry->second)];
  }
  if (c.Int("sorted", 1) != 0) {
    Ints place(first.size()), new_first, new_counts;
    for (const auto& [row, old] : numbered) {
      place[static_cast<std::size_t>(old)] = static_cast<int64_t>(new_first.size());
      new_first.push_back(first[static_cast<std::size_t>(old)]);
      new_counts.push_back(counts[static_cast<std::size_t>(old)]);
    }
    for (int64_t& i : inverse) i = place[static_cast<std::size_t>(i)];
    first = new_first;
    counts = new_counts;
  }
  XlaOp data = c.In(0);
  if (flat) data = Reshape(data, {shape.element_count()});
  return {TakeAt(data, axis, first), IntList(c.b, first), IntList(c.b, inverse), IntList(c.b, counts)};
}

namespace {

// [N, B] each, with y0 <= y1 and x0 <= x1.
struct Boxes {
  XlaOp y0, x0, y1, x1;
};
Boxes BoxesOf(XlaOp boxes, bool by_centre) {
  const Ints d = DimsOf(boxes), one = {d[0], d[1]};
  auto part = [&](int64_t i) { return Reshape(SliceInDim(boxes, i, i + 1, 1, 2), one); };
  const XlaOp p[] = {part(0), part(1), part(2), part(3)};
  if (!by_centre) return {Min(p[0], p[2]), Min(p[1], p[3]), Max(p[0], p[2]), Max(p[1], p[3])};
  const XlaOp w = Mul(p[2], Like(p[2], 0.5)), h = Mul(p[3], Like(p[3], 0.5));
  return {Sub(p[1], h), Sub(p[0], w), Add(p[1], h), Add(p[0], w)};
}
XlaOp AreaOf(const Boxes& b) { return Mul(Sub(b.y1, b.y0), Sub(b.x1, b.x0)); }

// One turn of the loop over the state (turn, scores [N, C, B], picked s32[N, C, K], boxes, threshold): the best box of
// each class is picked, and those that overlap it leave by a score of -inf, as what was never to be picked has.
Outputs PickBest(const Outputs& state, const Ints& dims) {
  const Ints each = {dims[0], dims[1]};
  XlaBuilder* b = state[0].builder();
  const XlaOp scores = state[1];
  const XlaOp best = ReduceBy(Fold::kMax, scores, Ints{2}, false);
  const XlaOp index = Iota(b, MakeShape(S32, dims), 2);
  const XlaOp is_best = Eq(scores, BroadcastInDim(best, dims, {0, 1}));
  const XlaOp none = BroadcastTo(Number(b, S32, static_cast<double>(dims[2])), dims);
  const XlaOp at = Min(ReduceBy(Fold::kMin, Select(is_best, index, none), Ints{2}, false),
                       Number(b, S32, static_cast<double>(dims[2] - 1)));
  const XlaOp is_there = Gt(best, Like(best, -INFINITY));
  const Boxes all = {state[3], state[4], state[5], state[6]};
  const Ints points = {dims[0], dims[1], 1};
  const XlaOp place = ConcatInDim(b, {Reshape(Iota(b, MakeShape(S32, each), 0), points), Reshape(at, points)}, 2);
  auto own = [&](XlaOp x) { return TakePoints(x, place); };
  const Boxes one = {own(all.y0), own(all.x0), own(all.y1), own(all.x1)};
  auto wide = [&](XlaOp x) { return BroadcastInDim(x, dims, {0, 2}); };
  auto spread = [&](XlaOp x) { return BroadcastInDim(x, dims, {0, 1}); };
  const XlaOp h = Sub(Min(wide(all.y1), spread(one.y1)), Max(wide(all.y0), spread(one.y0))),
              w = Sub(Min(wide(all.x1), spread(one.x1)), Max(wide(all.x0), spread(one.x0)));
  const XlaOp common = Mul(h, w);
  const XlaOp both = Sub(Add(wide(AreaOf(all)), spread(AreaOf(one))), common);
  const XlaOp zero = Like(h, 0);
  const XlaOp overlaps =
      And(And(And(Gt(h, zero), Gt(w, zero)), Gt(both, zero)), Gt(Div(common, both), BroadcastTo(state[7], dims)));
  const XlaOp leaves = Or(overlaps, Eq(index, spread(at)));
  Outputs out = state;
  out[0] = Add(state[0], Number(b, S32, 1));
  out[1] = Select(leaves, BroadcastTo(Like(scores, -INFINITY), dims), scores);
  const XlaOp start = Zero(b, S32);
  const XlaOp picked = Select(is_there, at, BroadcastTo(Number(b, S32, -1), each));
  out[2] = DynamicUpdateSlice(state[2], Reshape(picked, points), {start, start, state[0]});
  return out;
}

}  // namespace

// The greedy choice, for all images and classes at once: as many turns as the class with the most boxes takes.
Outputs OnNonMaxSuppression(Call& c) {
  XlaOp scores = Convert(c.In(1), F32);
  const XlaOp boxes = WholeOf(Convert(c.In(0), F32));
  const Ints db = DimsOf(boxes), dims = DimsOf(scores);
  if (db.size() != 3 || dims.size() != 3 || db[2] != 4 || db[0] != dims[0] || db[1] != dims[2])
    Reject("Boxes must be [N, B, 4] and scores [N, C, B].");
  const Ints most = c.Has(2) ? c.KnownInts(2, "the number of boxes") : Ints{0};
  const int64_t k = std::clamp<int64_t>(most.empty() ? 0 : most[0], 0, dims[2]);
  if (k == 0 || Volume(dims) == 0) return {ConstantLiteral(c.b, LiteralUtil::CreateFromArray<int64_t>({}, {0, 3}))};
  const XlaOp overlap = c.Has(3) ? Convert(Reshape(c.In(3), {}), F32) : Zero(c.b, F32);
  const XlaOp none = BroadcastTo(Like(scores, -INFINITY), dims);
  // What lies behind a run-time size is never picked.
  for (int64_t d = 0; d < 3; ++d) scores = FilledBehind(scores, d, Like(scores, -INFINITY));
  if (c.Has(4)) scores = Select(Gt(scores, BroadcastTo(Convert(Reshape(c.In(4), {}), F32), dims)), scores, none);
  else scores = Select(Ne(scores, scores), none, scores);
  const Boxes all = BoxesOf(boxes, c.Int("center_point_box", 0) != 0);
  const Outputs init = {Zero(c.b, S32), scores, Filled(c.b, S32, Ints{dims[0], dims[1], k}, -1), all.y0, all.x0, all.y1,
                        all.x1,         overlap};
  const auto is_left = [&](const Outputs& state) {
    const XlaOp best = ReduceBy(Fold::kMax, state[1], Ints{0, 1, 2}, false);
    return And(Lt(state[0], Like(state[0], static_cast<double>(k))), Gt(best, Like(best, -INFINITY)));
  };
  const Outputs last = LoopOver(init, is_left, [&](const Outputs& state) { return PickBest(state, dims); });
  // Rows (image, class, box) of what was picked, in that order.
  const int64_t rows = Volume(Ints{dims[0], dims[1], k});
  const XlaOp picked = Reshape(last[2], {rows});
  const Places places = PlacesOf(Ge(picked, Like(picked, 0)));
  const XlaOp class_of = Div(places.at, Like(places.at, static_cast<double>(k)));
  const XlaOp classes = Like(class_of, static_cast<double>(dims[1]));
  auto column = [&](XlaOp x) { return Reshape(Convert(x, S64), {ShapeOf(places.at).dim(0), 1}); };
  const XlaOp table = ConcatInDim(
      c.b, {column(Div(class_of, classes)), column(Rem(class_of, classes)), column(TakeAlong(picked, places.at, 0))},
      1);
  return {SetDimensionSize(table, places.count, 0)};
}

}  // namespace krafla::onnx
