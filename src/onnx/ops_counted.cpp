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
// Each true one goes to where the running sum says, the others nowhere.
Places PlacesOf(XlaOp flags) {
  XlaBuilder* b = flags.builder();
  const Ints n = DimsOf(flags);
  if (n[0] > INT32_MAX) Reject("{} elements are too many to number.", n[0]);
  const XlaOp index = Iota(b, S32, n[0]), ones = Convert(flags, S32);
  const XlaOp count = ReduceBy(Fold::kSum, ones, Ints{0}, false);
  if (n[0] == 0) return {index, count};
  const Ints one{1};
  const XlaOp sums = ReduceWindowWithGeneralPadding(ones, Number(b, S32, 0), Adder(S32), n, one, one, one,
                                                    std::vector<std::pair<int64_t, int64_t>>{{n[0] - 1, 0}});
  const int64_t room = std::max<int64_t>(n[0], 2);
  // No two have the same place, also of those that go nowhere.
  const XlaOp to = Select(flags, Sub(sums, Like(sums, 1)), Add(index, Like(index, static_cast<double>(room))));
  return {PutAt(Filled(b, S32, Ints{room}, 0), to, index, /*unique=*/true), count};
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

namespace {
// The elements in row-major order, in numbers of which each holds all bits: of integers of 64 bits the halves, the
// upper one first, so that they are ordered as the integers are.
std::vector<double> NumbersInHalves(const Literal& x) {
  const ElementType type = x.shape().element_type();
  if (type != S64 && type != U64) return NumbersOf(x);
  std::vector<double> out;
  const auto add = [&](auto value) {
    out.push_back(static_cast<double>(value >> 32));
    out.push_back(static_cast<double>(static_cast<uint64_t>(value) & 0xffffffffu));
  };
  if (type == S64) std::ranges::for_each(x.data<int64_t>(), add);
  else std::ranges::for_each(x.data<uint64_t>(), add);
  return out;
}
}  // namespace
Outputs OnUnique(Call& c) {
  const Literal& x = c.Known(0, "whose elements are counted");
  const Shape& shape = x.shape();
  const std::vector<double> numbers = NumbersInHalves(x);
  const std::size_t parts = numbers.empty() ? 1 : numbers.size() / static_cast<std::size_t>(shape.element_count());
  // Rows along the axis; without one, elements.
  const bool flat = c.Find("axis") == nullptr;
  const int64_t axis = flat ? 0 : Axis(c.Int("axis"), shape.rank());
  const int64_t count = flat ? shape.element_count() : shape.dim(axis);
  std::vector<std::vector<double>> rows(static_cast<std::size_t>(count));
  Ints at(static_cast<std::size_t>(shape.rank()));
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    const std::size_t i = n / parts;
    if (flat) {
      rows[i].push_back(numbers[n]);
      continue;
    }
    DelinearizeIndex(static_cast<int64_t>(i), shape.dims(), at);
    rows[static_cast<std::size_t>(at[static_cast<std::size_t>(axis)])].push_back(numbers[n]);
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

// For each of a [N, C, I] and each of b [N, C, J] whether they overlap by more: pred[N, C, I, J].
XlaOp Overlaps(const Boxes& a, const Boxes& b, XlaOp by_more) {
  const Ints i = DimsOf(a.y0), j = DimsOf(b.y0), dims = {i[0], i[1], i[2], j[2]};
  const auto down = [&](XlaOp x) { return BroadcastInDim(x, dims, {0, 1, 2}); };
  const auto along = [&](XlaOp x) { return BroadcastInDim(x, dims, {0, 1, 3}); };
  const XlaOp h = Sub(Min(down(a.y1), along(b.y1)), Max(down(a.y0), along(b.y0))),
              w = Sub(Min(down(a.x1), along(b.x1)), Max(down(a.x0), along(b.x0)));
  const XlaOp common = Mul(h, w);
  const XlaOp both = Sub(Add(down(AreaOf(a)), along(AreaOf(b))), common);
  const XlaOp zero = Like(h, 0);
  return And(And(And(Gt(h, zero), Gt(w, zero)), Gt(both, zero)), Gt(Div(common, both), BroadcastTo(by_more, dims)));
}

// Boxes are taken in the order of their scores, so many at a time: as many as a u32 has bits.
constexpr int64_t kBlock = 32;
// With so many picked boxes of a class those of a block are compared at a time.
constexpr int64_t kPickedBlock = 256;

struct Sizes {
  int64_t images, classes, boxes, most;
  Ints Of(int64_t last) const { return {images, classes, last}; }
};

XlaOp IsAny(XlaOp flags, std::span<const int64_t> axes) {
  const XlaOp most = ReduceBy(Fold::kMax, Convert(flags, S32), axes, false);
  return Gt(most, Like(most, 0));
}
XlaOp WideAt(XlaOp x, int64_t last, const Sizes& n) { return BroadcastInDim(x, n.Of(last), {0, 1}); }
XlaOp SliceOfLast(XlaOp x, XlaOp start, int64_t size, const Sizes& n) {
  const XlaOp first = Zero(x.builder(), S32);
  return DynamicSlice(x, {first, first, start}, n.Of(size));
}
// A number for each element of a block.
XlaOp InBlock(XlaBuilder* b, ElementType type, const Sizes& n) { return Iota(b, MakeShape(type, n.Of(kBlock)), 2); }

// The boxes of each image with the numbers at [N, C, I].
Boxes BoxesAt(const Boxes& all, XlaOp at) {
  Ints points = DimsOf(at);
  points.push_back(1);
  const XlaOp image = Iota(at.builder(), MakeShape(S32, DimsOf(at)), 0);
  const XlaOp places = ConcatInDim(at.builder(), {Reshape(image, points), Reshape(at, points)}, 3);
  return {TakePoints(all.y0, places), TakePoints(all.x0, places), TakePoints(all.y1, places),
          TakePoints(all.x1, places)};
}

// Which of a block's boxes overlap one of those that were picked before: pred[N, C, kBlock].
XlaOp OverlapsPicked(const Boxes& block, const Boxes& all, XlaOp picked, XlaOp count, XlaOp by_more, const Sizes& n) {
  const auto with = [&](const Boxes& own, const Boxes& of_images, XlaOp some, XlaOp more) {
    const XlaOp is_there = Ge(some, Like(some, 0));
    const Boxes others = BoxesAt(of_images, Max(some, Like(some, 0)));
    const Ints dims = {n.images, n.classes, kBlock, DimsOf(some)[2]};
    return IsAny(And(Overlaps(own, others, more), BroadcastInDim(is_there, dims, {0, 1, 3})), Ints{3});
  };
  const int64_t most = DimsOf(picked)[2];
  if (most <= kPickedBlock) return with(block, all, picked, by_more);
  XlaBuilder* b = picked.builder();
  const XlaOp largest = ReduceBy(Fold::kMax, count, Ints{0, 1}, false);
  const Outputs init = {Zero(b, S32),
                        largest,
                        picked,
                        block.y0,
                        block.x0,
                        block.y1,
                        block.x1,
                        all.y0,
                        all.x0,
                        all.y1,
                        all.x1,
                        by_more,
                        Filled(b, PRED, n.Of(kBlock), 0)};
  const auto is_left = [](const Outputs& s) { return Lt(s[0], s[1]); };
  return LoopOver(init, is_left, [&](const Outputs& s) {
    Outputs out = s;
    const XlaOp some = SliceOfLast(s[2], s[0], kPickedBlock, n);
    out[0] = Add(s[0], Like(s[0], static_cast<double>(kPickedBlock)));
    out[12] = Or(s[12], with({s[3], s[4], s[5], s[6]}, {s[7], s[8], s[9], s[10]}, some, s[11]));
    return out;
  })[12];
}

// Of a block's boxes, in the order of their scores, those that are picked, as bits of u32[N, C]: of `alive` all that
// overlap no other of them before.
XlaOp PickedOf(const Boxes& block, XlaOp alive, XlaOp by_more, const Sizes& n) {
  XlaBuilder* b = alive.builder();
  const Ints dims = {n.images, n.classes, kBlock, kBlock}, each = {n.images, n.classes};
  const XlaOp later = Iota(b, MakeShape(U32, dims), 2), sooner = Iota(b, MakeShape(U32, dims), 3);
  const XlaOp hides = And(Overlaps(block, block, by_more), Gt(later, sooner));
  const XlaOp bit = ShiftLeft(BroadcastTo(Number(b, U32, 1), dims), later);
  // For each the bits of those behind it that it overlaps.
  const XlaOp hidden = ReduceBy(Fold::kSum, Select(hides, bit, BroadcastTo(Zero(b, U32), dims)), Ints{2}, false);
  const XlaOp one = Number(b, U32, 1);
  XlaOp bits = ReduceBy(Fold::kSum,
                        Select(alive, ShiftLeft(BroadcastTo(one, n.Of(kBlock)), InBlock(b, U32, n)),
                               BroadcastTo(Zero(b, U32), n.Of(kBlock))),
                        Ints{2}, false);
  for (int64_t i = 0; i < kBlock; ++i) {
    const XlaOp is_picked = And(ShiftRightLogical(bits, Like(bits, static_cast<double>(i))), one);
    const XlaOp own = Reshape(SliceInDim(hidden, i, i + 1, 1, 2), each);
    bits = And(bits, Not(Mul(own, is_picked)));
  }
  return bits;
}

// State of the loop over blocks: (the block, whether there is more to do, scores and numbers of boxes in order
// [N, C, S], count s32[N, C], picked s32[N, C, K], boxes, overlap).
Outputs PickOfBlock(const Outputs& state, const Sizes& n) {
  XlaBuilder* b = state[0].builder();
  const XlaOp start = Mul(state[0], Number(b, S32, static_cast<double>(kBlock)));
  const XlaOp scores = SliceOfLast(state[2], start, kBlock, n), at = SliceOfLast(state[3], start, kBlock, n);
  const XlaOp count = state[4], picked = state[5], by_more = state[10];
  const Boxes all = {state[6], state[7], state[8], state[9]}, block = BoxesAt(all, at);
  const XlaOp overlaps = OverlapsPicked(block, all, picked, count, by_more, n);
  const XlaOp alive = And(Gt(scores, Like(scores, -INFINITY)), Not(overlaps));
  const XlaOp bits = PickedOf(block, alive, by_more, n);
  // Each goes behind those before it, or nowhere.
  const XlaOp own = ShiftLeft(BroadcastTo(Number(b, U32, 1), n.Of(kBlock)), InBlock(b, U32, n));
  const XlaOp wide = WideAt(bits, kBlock, n);
  const XlaOp before = PopulationCount(And(wide, Sub(own, Like(own, 1))));
  const XlaOp is_picked = Ne(And(wide, own), Like(own, 0));
  const XlaOp nowhere = BroadcastTo(Number(b, S32, static_cast<double>(DimsOf(picked)[2])), n.Of(kBlock));
  const XlaOp place = Select(is_picked, Add(Convert(before, S32), WideAt(count, kBlock, n)), nowhere);
  Ints points = n.Of(kBlock);
  points.push_back(1);
  const auto point = [&](XlaOp x) { return Reshape(x, points); };
  const XlaOp image = Iota(b, MakeShape(S32, n.Of(kBlock)), 0), of_class = Iota(b, MakeShape(S32, n.Of(kBlock)), 1);
  ScatterDimensionNumbers numbers;
  for (int64_t d = 0; d < 3; ++d) {
    numbers.inserted_window_dims.push_back(d);
    numbers.scatter_dims_to_operand_dims.push_back(d);
  }
  numbers.index_vector_dim = 3;
  Outputs out = state;
  out[5] = Scatter(picked, ConcatInDim(b, {point(image), point(of_class), point(place)}, 3), at, Combiner("none", S32),
                   numbers);
  const XlaOp most = Number(b, S32, static_cast<double>(n.most));
  out[4] = Min(Add(count, Convert(PopulationCount(bits), S32)), most);
  out[0] = Add(state[0], Like(state[0], 1));
  const int64_t size = DimsOf(state[2])[2];
  const XlaOp next = Add(start, Number(b, S32, static_cast<double>(kBlock)));
  const XlaOp best = Reshape(SliceOfLast(state[2], next, 1, n), {n.images, n.classes});
  const XlaOp is_class_left = And(Gt(best, Like(best, -INFINITY)), Lt(out[4], most));
  const XlaOp is_block_left = Lt(out[0], Number(b, S32, static_cast<double>(size / kBlock)));
  out[1] = And(IsAny(is_class_left, Ints{0, 1}), is_block_left);
  return out;
}

// How many of the best boxes are put into order at a time: rarely more are looked at.
int64_t SortedAtATime(const Sizes& n) {
  const int64_t some = (2 * n.most + kBlock - 1) / kBlock * kBlock;
  // A sort that is asked for the first of many only is much faster than a whole one.
  return some < n.boxes / 4 ? some : n.boxes;
}

// State of the loop over parts of the boxes, the best ones first: (whether there is more to do, score and number of the
// last box of each class that was looked at, count, picked, scores [N, C, B], boxes, overlap, least score).
Outputs PickOfBest(const Outputs& state, const Sizes& n) {
  XlaBuilder* b = state[0].builder();
  const XlaOp all_scores = state[5];
  const Ints dims = n.Of(n.boxes);
  const XlaOp number = Iota(b, MakeShape(S32, dims), 2), last_score = WideAt(state[1], n.boxes, n);
  const XlaOp is_next =
      Or(Lt(all_scores, last_score), And(Eq(all_scores, last_score), Gt(number, WideAt(state[2], n.boxes, n))));
  const XlaOp is_asked = And(is_next, Gt(all_scores, BroadcastTo(state[11], dims)));
  const XlaOp none = BroadcastTo(Like(all_scores, -INFINITY), dims);
  XlaBuilder order("order");
  const XlaOp x = Parameter(&order, 0, Shape::MakeScalar(F32), "x"),
              y = Parameter(&order, 1, Shape::MakeScalar(F32), "y");
  Parameter(&order, 2, Shape::MakeScalar(S32), "i");
  Parameter(&order, 3, Shape::MakeScalar(S32), "j");
  // Stable: of equal scores the first box comes first.
  const XlaOp sorted = Sort({Select(is_asked, all_scores, none), number}, Need(order.Build(Gt(x, y))), 2, true);
  const int64_t some = SortedAtATime(n), padding = (some + kBlock - 1) / kBlock * kBlock - some;
  const auto first = [&](int64_t i, double fill) {
    const XlaOp best = SliceInDim(GetTupleElement(sorted, i), 0, some, 1, 2);
    const std::pair<int64_t, int64_t> widths[] = {{0, 0}, {0, 0}, {0, padding}};
    return PadWith(best, Like(best, fill), widths);
  };
  const XlaOp scores = first(0, -INFINITY), at = first(1, 0);
  const XlaOp go = Not(Zero(b, PRED));
  const Outputs init = {Zero(b, S32), go,       scores,   at,       state[3], state[4],
                        state[6],     state[7], state[8], state[9], state[10]};
  const Outputs picked =
      LoopOver(init, [](const Outputs& s) { return s[1]; }, [&](const Outputs& s) { return PickOfBlock(s, n); });
  Outputs out = state;
  const auto last = [&](XlaOp of) { return Reshape(SliceInDim(of, some - 1, some, 1, 2), {n.images, n.classes}); };
  out[1] = last(scores);
  out[2] = last(at);
  out[3] = picked[4];
  out[4] = picked[5];
  out[0] = IsAny(And(Gt(out[1], Like(out[1], -INFINITY)), Lt(out[3], Like(out[3], static_cast<double>(n.most)))),
                 Ints{0, 1});
  return out;
}

}  // namespace

// The greedy choice, for all images and classes at once: boxes are looked at in the order of their scores. Those of a
// block are compared with all that were picked before and with each other.
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
  // What lies behind a run-time size is never picked, as a NaN and -inf are not.
  for (int64_t d = 0; d < 3; ++d) scores = FilledBehind(scores, d, Like(scores, -INFINITY));
  const XlaOp least = c.Has(4) ? Convert(Reshape(c.In(4), {}), F32) : Number(c.b, F32, -INFINITY);
  const Boxes all = BoxesOf(boxes, c.Int("center_point_box", 0) != 0);
  const Sizes n = {dims[0], dims[1], dims[2], k};
  const Ints each = {dims[0], dims[1]};
  const int64_t room = k <= kPickedBlock ? k : (k + kPickedBlock - 1) / kPickedBlock * kPickedBlock;
  const Outputs init = {Not(Zero(c.b, PRED)),
                        Filled(c.b, F32, each, INFINITY),
                        Filled(c.b, S32, each, -1),
                        Filled(c.b, S32, each, 0),
                        Filled(c.b, S32, n.Of(room), -1),
                        scores,
                        all.y0,
                        all.x0,
                        all.y1,
                        all.x1,
                        overlap,
                        least};
  const bool is_one_part = SortedAtATime(n) == n.boxes;
  const Outputs last =
      is_one_part
          ? PickOfBest(init, n)
          : LoopOver(init, [](const Outputs& s) { return s[0]; }, [&](const Outputs& s) { return PickOfBest(s, n); });
  // Rows (image, class, box) of what was picked, in that order.
  const int64_t rows = Volume(Ints{dims[0], dims[1], k});
  const XlaOp picked = Reshape(SliceInDim(last[4], 0, k, 1, 2), {rows});
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
