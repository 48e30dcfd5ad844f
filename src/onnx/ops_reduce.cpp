// SPDX-License-Identifier: Apache-2.0
// Reductions, running sums, softmax, orders.
#include <algorithm>

#include "onnx/call.h"

namespace krafla::onnx {
namespace {

// The axes of a reduction; none: all of them, or with noop_with_empty_axes none.
Ints ReducedAxes(Call& c) {
  const int64_t rank = c.ShapeOf(0).rank();
  std::optional<Ints> given = c.Axes(1);
  if (!given || given->empty()) return c.Int("noop_with_empty_axes", 0) != 0 ? Ints{} : Range(0, rank);
  for (int64_t& axis : *given) axis = Axis(axis, rank);
  std::ranges::sort(*given);
  return *given;
}
bool Keeps(Call& c) { return c.Int("keepdims", 1) != 0; }
XlaOp Wide(XlaOp x) { return IsSmallFloat(TypeOf(x)) ? Convert(x, F32) : x; }
template <typename F>
Outputs Reducing(Call& c, F&& f) {
  const XlaOp x = c.In(0);
  return {Convert(f(Wide(x), ReducedAxes(c), Keeps(c)), TypeOf(x))};
}

}  // namespace

Outputs OnReduceSum(Call& c) {
  return Reducing(c, [](XlaOp x, const Ints& axes, bool keep) { return ReduceBy(Fold::kSum, x, axes, keep); });
}
Outputs OnReduceProd(Call& c) {
  return Reducing(c, [](XlaOp x, const Ints& axes, bool keep) { return ReduceBy(Fold::kProduct, x, axes, keep); });
}
Outputs OnReduceMax(Call& c) {
  return Reducing(c, [](XlaOp x, const Ints& axes, bool keep) { return ReduceBy(Fold::kMax, x, axes, keep); });
}
Outputs OnReduceMin(Call& c) {
  return Reducing(c, [](XlaOp x, const Ints& axes, bool keep) { return ReduceBy(Fold::kMin, x, axes, keep); });
}
Outputs OnReduceMean(Call& c) {
  return Reducing(c, [](XlaOp x, const Ints& axes, bool keep) { return MeanOf(x, axes, keep); });
}
Outputs OnReduceL1(Call& c) {
  return Reducing(c, [](XlaOp x, const Ints& axes, bool keep) {
    return ReduceBy(Fold::kSum, IsUnsigned(TypeOf(x)) ? x : Abs(x), axes, keep);
  });
}
Outputs OnReduceL2(Call& c) {
  return Reducing(c, [](XlaOp x, const Ints& axes, bool keep) {
    const ElementType work = IsFloat(TypeOf(x)) ? TypeOf(x) : F64;
    return Sqrt(ReduceBy(Fold::kSum, Convert(Mul(x, x), work), axes, keep));
  });
}
Outputs OnReduceSumSquare(Call& c) {
  return Reducing(c, [](XlaOp x, const Ints& axes, bool keep) { return ReduceBy(Fold::kSum, Mul(x, x), axes, keep); });
}
Outputs OnReduceLogSum(Call& c) {
  return Reducing(c, [](XlaOp x, const Ints& axes, bool keep) {
    const XlaOp sum = ReduceBy(Fold::kSum, x, axes, keep);
    return Log(IsFloat(TypeOf(sum)) ? sum : Convert(sum, F64));
  });
}
Outputs OnReduceLogSumExp(Call& c) {
  return Reducing(c, [](XlaOp given, const Ints& axes, bool keep) {
    const XlaOp x = IsFloat(TypeOf(given)) ? given : Convert(given, F64);
    if (axes.empty()) return x;
    const XlaOp most = ReduceBy(Fold::kMax, x, axes, true);
    const XlaOp safe = Select(IsFinite(most), most, BroadcastTo(Like(most, 0), DimsOf(most)));
    const XlaOp sum = ReduceBy(Fold::kSum, Exp(Sub(x, BroadcastTo(safe, DimsOf(x)))), axes, keep);
    return Add(Log(sum), Reshape(safe, DimsOf(sum)));
  });
}

namespace {
// The place of the largest (or smallest) element along an axis; the first of equal ones, or the last.
XlaOp PlaceOf(XlaOp x, int64_t axis, bool largest, bool last, bool keep) {
  XlaBuilder* b = x.builder();
  const Shape shape = ShapeOf(x);
  const ElementType type = shape.element_type();
  XlaBuilder pick("pick");
  const Shape value = Shape::MakeScalar(type), index = Shape::MakeScalar(S64);
  const XlaOp v0 = Parameter(&pick, 0, value, "v0"), i0 = Parameter(&pick, 1, index, "i0");
  const XlaOp v1 = Parameter(&pick, 2, value, "v1"), i1 = Parameter(&pick, 3, index, "i1");
  const XlaOp better = largest ? Gt(v0, v1) : Lt(v0, v1);
  const XlaOp first = last ? Gt(i0, i1) : Lt(i0, i1);
  const XlaOp takes = Or(better, And(Eq(v0, v1), first));
  Tuple(&pick, {Select(takes, v0, v1), Select(takes, i0, i1)});
  const XlaOp places = Iota(b, shape.WithElementType(S64), axis);
  // Any element is better than the start, or equal to it with a better place.
  const XlaOp start = ConstantR0<int64_t>(b, last ? -1 : INT64_MAX);
  const XlaOp pair =
      Reduce(b, {x, places}, {largest ? Lowest(b, type) : Highest(b, type), start}, Need(pick.Build()), {axis});
  XlaOp out = GetTupleElement(pair, 1);
  if (!keep) return out;
  Ints dims = DimsOf(shape);
  dims[static_cast<std::size_t>(axis)] = 1;
  return Reshape(out, dims);
}
}  // namespace
Outputs OnArgMax(Call& c) {
  const XlaOp x = c.In(0);
  return {PlaceOf(x, Axis(c.Int("axis", 0), RankOf(x)), c.node.op_type == "ArgMax", c.Int("select_last_index", 0) != 0,
                  Keeps(c))};
}

XlaOp SoftmaxOf(XlaOp x, int64_t given_axis, int64_t opset, bool log) {
  const Ints dims = DimsOf(x);
  const ElementType type = TypeOf(x);
  const int64_t at = Axis(given_axis, RankOf(x));
  if (ShapeOf(x).IsDynamic() && (opset < 13 || ShapeOf(x).IsDynamicDim(at)))
    Refuse("The size of {} depends on the data.", ShapeOf(x).ToString(false));
  const auto axis = static_cast<std::size_t>(at);
  if (opset >= 13 || axis + 1 == dims.size()) return Convert(SoftmaxOver(Wide(x), at, log), type);
  // Until opset 12 all dimensions from the axis on are one.
  const Ints flat = {Volume(std::span(dims).first(axis)), Volume(std::span(dims).subspan(axis))};
  return Convert(Reshape(SoftmaxOver(Reshape(Wide(x), flat), 1, log), dims), type);
}
Outputs OnSoftmax(Call& c) {
  const int64_t axis = c.Int("axis", c.opset >= 13 ? -1 : 1);
  return {SoftmaxOf(c.In(0), axis, c.opset, c.node.op_type == "LogSoftmax")};
}
Outputs OnHardmax(Call& c) {
  const XlaOp x = c.In(0);
  const Shape shape = ShapeOf(x);
  const Ints dims = DimsOf(shape);
  Ints flat = dims;
  int64_t axis = Axis(c.Int("axis", c.opset >= 13 ? -1 : 1), shape.rank());
  if (c.opset < 13) {
    const auto cut = static_cast<std::size_t>(axis);
    flat = {Volume(std::span(dims).first(cut)), Volume(std::span(dims).subspan(cut))};
    axis = 1;
  }
  const XlaOp place = PlaceOf(Reshape(x, flat), axis, true, false, true);
  const XlaOp index = Iota(c.b, MakeShape(S64, flat), axis);
  return {Reshape(Convert(Eq(index, BroadcastTo(place, flat)), shape.element_type()), dims)};
}
Outputs OnCumSum(Call& c) {
  XlaOp x = c.In(0);
  const Shape shape = ShapeOf(x);
  const Ints axis_input = c.KnownInts(1, "the axis");
  if (axis_input.size() != 1) Reject("The axis must be one number.");
  const int64_t axis = Axis(axis_input[0], shape.rank()), n = shape.dim(axis);
  const bool product = c.node.op_type == "CumProd";
  const bool exclusive = c.Int("exclusive", 0) != 0, reverse = c.Int("reverse", 0) != 0;
  if (n == 0) return {x};
  const auto d = static_cast<std::size_t>(axis);
  Ints window(static_cast<std::size_t>(shape.rank()), 1), ones = window;
  std::vector<std::pair<int64_t, int64_t>> padding(window.size());
  window[d] = n;
  padding[d] = reverse ? std::pair<int64_t, int64_t>{0, n - 1} : std::pair<int64_t, int64_t>{n - 1, 0};
  const ElementType type = shape.element_type();
  x = Wide(x);
  if (exclusive) {  // the window does not see the element itself: shift by one, then sum
    std::vector<std::pair<int64_t, int64_t>> shift(window.size());
    shift[d] = reverse ? std::pair<int64_t, int64_t>{-1, 1} : std::pair<int64_t, int64_t>{1, -1};
    x = PadWith(x, Like(x, product ? 1 : 0), shift);
  }
  const XlaComputation fold = product ? Multiplier(TypeOf(x)) : Adder(TypeOf(x));
  return {Convert(ReduceWindowWithGeneralPadding(x, Like(x, product ? 1 : 0), fold, window, ones, ones, ones, padding),
                  type)};
}
Outputs OnTopK(Call& c) {
  XlaOp x = c.In(0);
  const Shape shape = ShapeOf(x);
  const int64_t axis = Axis(c.Int("axis", -1), shape.rank()), size = shape.dim(axis);
  const Call::Sizes k = c.opset >= 10 ? c.SizesIn(1, "the number of elements") : Call::Sizes{{c.Int("k")}, {true}};
  if (k.most.size() != 1 || k.most[0] < 0 || (k.most[0] > size && k.all_known()))
    Reject("It takes a wrong number of {} elements.", size);
  const int64_t most = std::min(k.most[0], size);
  const bool largest = c.Int("largest", 1) != 0;
  XlaOp count;  // where it depends on the data
  if (!k.all_known()) count = Convert(Reshape(c.In(1), {}), S32);
  if (shape.IsDynamicDim(axis)) {  // what lies behind the run-time size comes last
    count = Min(GetDimensionSize(x, axis), k.all_known() ? Number(c.b, S32, static_cast<double>(most)) : count);
    x = FilledBehind(x, axis, largest ? Lowest(c.b, shape.element_type()) : Highest(c.b, shape.element_type()));
  }
  // Along the last dimension it is not sorted whole.
  const int64_t last = shape.rank() - 1, at = most < size ? last : axis;
  x = MoveAxis(x, axis, at);
  // A stable sort: of equal elements the first comes first.
  XlaBuilder order("order");
  const Shape value = Shape::MakeScalar(shape.element_type()), index = Shape::MakeScalar(S64);
  const XlaOp a = Parameter(&order, 0, value, "a"), b = Parameter(&order, 1, value, "b");
  Parameter(&order, 2, index, "i");
  Parameter(&order, 3, index, "j");
  const XlaOp root = largest ? Gt(a, b) : Lt(a, b);
  const Shape places = ShapeOf(x).WithElementType(S64);
  const XlaOp sorted = Sort({x, Iota(c.b, places, at)}, Need(order.Build(root)), at, true);
  const auto result = [&](int64_t i) {
    const XlaOp first = MoveAxis(SliceInDim(GetTupleElement(sorted, i), 0, most, 1, at), at, axis);
    return count.IsUninitialized() ? first : SetDimensionSize(first, count, axis);
  };
  return {result(0), result(1)};
}

}  // namespace krafla::onnx
