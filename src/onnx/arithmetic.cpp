// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/checked_math.h"
#include "evaluator/evaluator.h"
#include "ir/module.h"
#include "onnx/call.h"

namespace krafla::onnx {

Shape ShapeOf(XlaOp x) {
  if (x.builder() == nullptr) Reject("An operand is missing.");
  return Need(x.builder()->GetShape(x));
}
int64_t Axis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) Reject("The axis {} is outside of an array of {} dimensions.", axis, rank);
  return axis < 0 ? axis + rank : axis;
}
Ints DimsOf(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }
Ints Range(int64_t first, int64_t last) {
  Ints out(static_cast<std::size_t>(std::max<int64_t>(last - first, 0)));
  std::iota(out.begin(), out.end(), first);
  return out;
}
int64_t Volume(std::span<const int64_t> dims) {
  int64_t out = 1;
  for (int64_t d : dims) {
    auto next = CheckedMul(out, d);
    if (d < 0 || !next) Reject("An array has a negative or too large dimension ({}).", d);
    out = *next;
  }
  return out;
}
Shape TupleOf(const Outputs& ops) {
  std::vector<Shape> shapes;
  for (const XlaOp& op : ops) shapes.push_back(ShapeOf(op));
  return Need(Shape::MakeTuple(shapes));
}
Shape MakeShape(ElementType type, std::span<const int64_t> dims) { return Need(Shape::MakeArray(type, dims)); }

Ints BroadcastDims(std::span<const int64_t> a, std::span<const int64_t> b) {
  Ints out(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) Reject("Dimensions of {} and {} do not broadcast.", x, y);
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}
XlaOp BroadcastTo(XlaOp x, std::span<const int64_t> dims) {
  const Shape shape = ShapeOf(x);
  const auto rank = static_cast<int64_t>(dims.size());
  if (std::ranges::equal(shape.dims(), dims)) return x;
  if (shape.rank() > rank) Reject("{} does not broadcast to {} dimensions.", shape.ToString(false), rank);
  // Dimensions of size 1 go first: what is left is one broadcast without sizes that repeat.
  Ints kept, places;
  for (int64_t i = 0; i < shape.rank(); ++i) {
    const int64_t place = i + rank - shape.rank(), to = dims[static_cast<std::size_t>(place)];
    if (shape.dim(i) != to && shape.dim(i) != 1)
      Reject("{} does not broadcast to size {} in dimension {}.", shape.ToString(false), to, place);
    if (shape.IsDynamicDim(i) && shape.dim(i) != to)
      Refuse("{} cannot be repeated to size {}, as its own depends on the data.", shape.ToString(false), to);
    if (shape.dim(i) == 1 && to != 1) continue;
    kept.push_back(shape.dim(i));
    places.push_back(place);
  }
  if (kept.size() != static_cast<std::size_t>(shape.rank())) x = Reshaped(x, kept);
  return BroadcastInDim(x, Ints(dims.begin(), dims.end()), places);
}
Outputs SizesOf(XlaOp x) {
  Outputs out;
  const Shape shape = ShapeOf(x);
  for (int64_t d = 0; d < shape.rank(); ++d) out.push_back(shape.IsDynamicDim(d) ? GetDimensionSize(x, d) : XlaOp());
  return out;
}
XlaOp WholeOf(XlaOp x) {
  const Shape shape = ShapeOf(x);
  for (int64_t d = 0; d < shape.rank(); ++d)
    if (shape.IsDynamicDim(d)) x = RemoveDynamicDimension(x, d);
  return x;
}
XlaOp WithSizes(XlaOp x, const Outputs& sizes) {
  for (std::size_t d = 0; d < sizes.size(); ++d)
    if (!sizes[d].IsUninitialized()) x = SetDimensionSize(x, sizes[d], static_cast<int64_t>(d));
  return x;
}
XlaOp FilledBehind(XlaOp x, int64_t axis, XlaOp fill) {
  const Ints dims = DimsOf(x);
  if (!ShapeOf(x).IsDynamicDim(axis)) return x;
  const XlaOp size = BroadcastTo(GetDimensionSize(x, axis), dims);
  const XlaOp is_there = Lt(Iota(x.builder(), MakeShape(S32, dims), axis), size);
  return Select(is_there, RemoveDynamicDimension(x, axis), BroadcastTo(fill, dims));
}
XlaOp Reshaped(XlaOp x, std::span<const int64_t> dims) {
  const Shape shape = ShapeOf(x);
  if (!shape.IsDynamic()) return Reshape(x, Ints(dims.begin(), dims.end()));
  const Outputs from = SizesOf(x);
  Outputs sizes(dims.size());
  int64_t before = 1;
  for (int64_t d = 0; d < shape.rank(); before *= shape.dim(d++)) {
    if (!shape.IsDynamicDim(d)) continue;
    // It stays, or those behind it are joined to it: then the elements that there are still come first.
    std::size_t to = 0;
    int64_t product = 1;
    while (to < dims.size() && (product < before || dims[to] < shape.dim(d))) product *= dims[to++];
    int64_t joined = shape.dim(d);
    for (int64_t next = d + 1; to < dims.size() && joined < dims[to] && next < shape.rank(); ++next)
      joined = shape.IsDynamicDim(next) ? -1 : joined * shape.dim(next);
    if (to == dims.size() || product != before || joined != dims[to] || shape.dim(d) == 0)
      Refuse("{} cannot be reshaped to {} dimensions, as the size of one that is joined or split depends on the data.",
             shape.ToString(false), dims.size());
    const XlaOp size = from[static_cast<std::size_t>(d)];
    sizes[to] = Mul(size, Like(size, static_cast<double>(joined / shape.dim(d))));
  }
  return WithSizes(Reshape(WholeOf(x), Ints(dims.begin(), dims.end())), sizes);
}
void Meet(XlaOp& a, XlaOp& b) {
  const Ints x = DimsOf(a), y = DimsOf(b);
  if (x == y) return;
  const Ints out = BroadcastDims(x, y);
  a = BroadcastTo(a, out);
  b = BroadcastTo(b, out);
}
XlaOp AlongAxis(XlaOp vector, std::span<const int64_t> dims, int64_t axis) {
  const Shape shape = ShapeOf(vector);
  if (shape.rank() == 0) return BroadcastTo(vector, dims);
  if (shape.rank() != 1 || shape.dim(0) != dims[static_cast<std::size_t>(axis)])
    Reject("{} must be a vector of {} elements.", shape.ToString(false), dims[static_cast<std::size_t>(axis)]);
  return BroadcastInDim(vector, Ints(dims.begin(), dims.end()), {axis});
}

XlaOp Zero(XlaBuilder* b, ElementType type) { return ConstantLiteral(b, Literal::Create(Shape::MakeScalar(type))); }
XlaOp Number(XlaBuilder* b, ElementType type, double value) { return ConstantR0WithType(b, type, value); }
XlaOp Like(XlaOp x, double value) { return Number(x.builder(), TypeOf(x), value); }
XlaOp Filled(XlaBuilder* b, ElementType type, std::span<const int64_t> dims, double value) {
  return Broadcast(Number(b, type, value), Ints(dims.begin(), dims.end()));
}
namespace {
int BitsOf(ElementType type) { return type == PRED ? 8 : BitWidth(type); }
}  // namespace
bool IsSmallFloat(ElementType type) { return krafla::IsFloat(type) && StorageBytes(type) < 4; }
XlaOp Lowest(XlaBuilder* b, ElementType type) {
  if (type == PRED || IsUnsigned(type)) return Zero(b, type);
  if (IsFloat(type)) return Number(b, type, -std::numeric_limits<double>::infinity());
  return Number(b, type, -std::ldexp(1.0, BitsOf(type) - 1));
}
XlaOp Highest(XlaBuilder* b, ElementType type) {
  if (type == PRED) return Number(b, type, 1);
  if (IsFloat(type)) return Number(b, type, std::numeric_limits<double>::infinity());
  return Number(b, type, std::ldexp(1.0, BitsOf(type) - (IsUnsigned(type) ? 0 : 1)));
}
XlaOp IntList(XlaBuilder* b, std::span<const int64_t> values) {
  return ConstantLiteral(b, LiteralUtil::CreateR1<int64_t>(values));
}
XlaOp Convert(XlaOp x, ElementType type) { return TypeOf(x) == type ? x : ConvertElementType(x, type); }

namespace {
XlaComputation Folder(Fold fold, ElementType type) {
  XlaBuilder b(fold == Fold::kSum ? "add" : fold == Fold::kProduct ? "mul" : fold == Fold::kMax ? "max" : "min");
  const XlaOp x = Parameter(&b, 0, Shape::MakeScalar(type), "x"), y = Parameter(&b, 1, Shape::MakeScalar(type), "y");
  switch (fold) {
    case Fold::kSum: Add(x, y); break;
    case Fold::kProduct: Mul(x, y); break;
    case Fold::kMax: Max(x, y); break;
    case Fold::kMin: Min(x, y); break;
  }
  return Need(b.Build());
}
}  // namespace
XlaComputation Adder(ElementType type) { return Folder(Fold::kSum, type); }
XlaComputation Multiplier(ElementType type) { return Folder(Fold::kProduct, type); }
XlaComputation Larger(ElementType type) { return Folder(Fold::kMax, type); }
XlaComputation Smaller(ElementType type) { return Folder(Fold::kMin, type); }

XlaOp ReduceBy(Fold fold, XlaOp x, std::span<const int64_t> axes, bool keep_dims) {
  const Shape shape = ShapeOf(x);
  const ElementType type = shape.element_type();
  const bool widen = IsSmallFloat(type) && (fold == Fold::kSum || fold == Fold::kProduct);
  const ElementType work = widen ? F32 : type;
  XlaBuilder* b = x.builder();
  Ints sorted(axes.begin(), axes.end()), kept = DimsOf(shape);
  std::ranges::sort(sorted);
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  for (int64_t axis : sorted) kept[static_cast<std::size_t>(axis)] = 1;
  const XlaOp start = fold == Fold::kSum       ? Zero(b, work)
                      : fold == Fold::kProduct ? Number(b, work, 1)
                      : fold == Fold::kMax     ? Lowest(b, work)
                                               : Highest(b, work);
  XlaOp out = sorted.empty() ? Convert(x, work) : Reduce(Convert(x, work), start, Folder(fold, work), sorted);
  out = Convert(out, type);
  return keep_dims && !sorted.empty() ? Reshaped(out, kept) : out;
}
Outputs LoopOver(const Outputs& init, const std::function<XlaOp(const Outputs&)>& goes_on,
                 const std::function<Outputs(const Outputs&)>& turn) {
  XlaBuilder* b = init[0].builder();
  const Shape tuple = TupleOf(init);
  const auto parts = [&](XlaOp state) {
    Outputs out;
    for (std::size_t i = 0; i < init.size(); ++i) out.push_back(GetTupleElement(state, static_cast<int64_t>(i)));
    return out;
  };
  auto test = b->CreateSubBuilder("goes_on"), body = b->CreateSubBuilder("turn");
  const XlaComputation condition = Need(test->Build(goes_on(parts(Parameter(test.get(), 0, tuple, "state")))));
  Tuple(body.get(), turn(parts(Parameter(body.get(), 0, tuple, "state"))));
  return parts(While(condition, Need(body->Build()), Tuple(b, init)));
}
XlaOp MeanOf(XlaOp x, std::span<const int64_t> axes, bool keep_dims) {
  const Shape shape = ShapeOf(x);
  const ElementType type = shape.element_type(), work = IsSmallFloat(type) ? F32 : type;
  const XlaOp sum = ReduceBy(Fold::kSum, Convert(x, work), axes, keep_dims);
  double known = 1;
  XlaOp count;  // of run-time sizes
  for (int64_t axis : axes) {
    if (!shape.IsDynamicDim(axis)) {
      known *= static_cast<double>(shape.dim(axis));
      continue;
    }
    const XlaOp size = Convert(GetDimensionSize(x, axis), work);
    count = count.IsUninitialized() ? size : Mul(count, size);
  }
  // Of no elements it is undefined; ONNX Runtime gives 0.
  if (count.IsUninitialized()) return Convert(Div(sum, Like(sum, std::max(known, 1.0))), type);
  const XlaOp all = Mul(count, Number(x.builder(), work, known));
  return Convert(Div(sum, Max(all, Number(x.builder(), work, 1))), type);
}
XlaOp SoftmaxOver(XlaOp x, int64_t axis, bool log) {
  const Ints dims = DimsOf(x);
  const XlaOp shifted = Sub(x, BroadcastTo(ReduceBy(Fold::kMax, x, {{axis}}, true), dims));
  const XlaOp e = Exp(shifted);
  const XlaOp sum = ReduceBy(Fold::kSum, e, {{axis}}, true);
  return log ? Sub(shifted, BroadcastTo(Log(sum), dims)) : Div(e, BroadcastTo(sum, dims));
}

XlaOp MatMulOf(XlaOp a, XlaOp b, std::optional<ElementType> sum_type) {
  Ints x = DimsOf(a), y = DimsOf(b);
  if (x.empty() || y.empty()) Reject("MatMul takes no scalars.");
  const bool row = x.size() == 1, column = y.size() == 1;
  if (row) a = Reshape(a, x = {1, x[0]});
  if (column) b = Reshape(b, y = {y[0], 1});
  const std::size_t rx = x.size(), ry = y.size();
  if (x[rx - 1] != y[ry - 2]) Reject("MatMul contracts dimensions of {} and {}.", x[rx - 1], y[ry - 2]);
  Ints batch = BroadcastDims(std::span(x).first(rx - 2), std::span(y).first(ry - 2));
  Ints out = batch;
  XlaOp product;
  DotDimensionNumbers dims;
  if (ry == 2) {  // one matrix for all: no batch
    dims.lhs_contracting_dimensions = {static_cast<int64_t>(rx) - 1};
    dims.rhs_contracting_dimensions = {0};
    product = DotGeneral(a, b, dims, nullptr, sum_type);
  } else {
    const auto n = static_cast<int64_t>(batch.size());
    Ints to_x = batch, to_y = batch;
    to_x.insert(to_x.end(), {x[rx - 2], x[rx - 1]});
    to_y.insert(to_y.end(), {y[ry - 2], y[ry - 1]});
    for (int64_t i = 0; i < n; ++i) {
      dims.lhs_batch_dimensions.push_back(i);
      dims.rhs_batch_dimensions.push_back(i);
    }
    dims.lhs_contracting_dimensions = {n + 1};
    dims.rhs_contracting_dimensions = {n};
    product = DotGeneral(BroadcastTo(a, to_x), BroadcastTo(b, to_y), dims, nullptr, sum_type);
  }
  if (!row) out.push_back(x[rx - 2]);
  if (!column) out.push_back(y[ry - 1]);
  return row || column ? Reshape(product, out) : product;
}
XlaOp TransposeTo(XlaOp x, std::span<const int64_t> permutation) {
  if (std::ranges::is_sorted(permutation)) return x;
  return Transpose(x, Ints(permutation.begin(), permutation.end()));
}
XlaOp MoveAxis(XlaOp x, int64_t from, int64_t to) {
  const int64_t rank = RankOf(x);
  if (std::min(from, to) < 0 || std::max(from, to) >= rank) Reject("It takes no arrays of {} dimensions.", rank);
  Ints order = Range(0, rank);
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, from);
  return TransposeTo(x, order);
}
XlaOp TakeAlong(XlaOp x, XlaOp indices, int64_t axis) {
  const Shape shape = ShapeOf(x);
  const int64_t rank = shape.rank(), index_rank = RankOf(indices);
  if (axis < 0 || axis >= rank) Reject("It takes no elements of an array of {} dimensions.", rank);
  GatherDimensionNumbers numbers;
  Dims sizes;
  for (int64_t i = 0; i < rank; ++i) {
    sizes.push_back(i == axis ? 1 : shape.dim(i));
    if (i != axis) numbers.offset_dims.push_back(i < axis ? i : i + index_rank - 1);
  }
  if (shape.dim(axis) == 0) Reject("Elements of an empty dimension were asked for.");
  numbers.collapsed_slice_dims = {axis};
  numbers.start_index_map = {axis};
  numbers.index_vector_dim = index_rank;
  return Gather(x, indices, numbers, sizes);
}
namespace {

// Places that go up or down by one, or stay.
struct Run {
  int64_t first = 0, count = 0, step = 0;
};
// Where runs have so many places each, on average, they are moved faster than their places are looked up.
constexpr int64_t kLeastRun = 8;

std::vector<Run> RunsOf(std::span<const int64_t> places) {
  std::vector<Run> out;
  for (std::size_t i = 0; i < places.size();) {
    Run run{places[i++], 1, 0};
    if (i < places.size() && IsWithin(places[i] - run.first, 1)) run.step = places[i] - run.first;
    else run.step = 1;
    for (; i < places.size() && places[i] - places[i - 1] == run.step; ++i) ++run.count;
    out.push_back(run);
  }
  return out;
}
XlaOp TakeRun(XlaOp x, int64_t axis, const Run& run) {
  if (run.step == 1 || run.count == 1) return SliceInDim(x, run.first, run.first + run.count, 1, axis);
  if (run.step == -1) return Rev(SliceInDim(x, run.first - run.count + 1, run.first + 1, 1, axis), {axis});
  const XlaOp one = SliceInDim(x, run.first, run.first + 1, 1, axis);
  Ints dims = DimsOf(one);
  dims[static_cast<std::size_t>(axis)] = run.count;
  return BroadcastInDim(one, dims, Range(0, static_cast<int64_t>(dims.size())));
}

}  // namespace

XlaOp TakeAt(XlaOp x, int64_t axis, std::span<const int64_t> places) {
  const Shape shape = ShapeOf(x);
  if (places.empty()) return SliceInDim(x, 0, 0, 1, axis);
  // Places that follow one another, at equal distances, are a slice.
  const int64_t step = places.size() > 1 ? places[1] - places[0] : 1;
  bool regular = step > 0;
  for (std::size_t i = 1; i < places.size() && regular; ++i) regular = places[i] - places[i - 1] == step;
  if (regular) return SliceInDim(x, places.front(), places.back() + 1, step, axis);
  if (const std::vector<Run> runs = RunsOf(places); std::ssize(runs) * kLeastRun <= std::ssize(places)) {
    std::vector<XlaOp> parts;
    for (const Run& run : runs) parts.push_back(TakeRun(x, axis, run));
    return ConcatInDim(x.builder(), parts, axis);
  }
  return TakeAlong(x, IntList(x.builder(), places), axis);
}
XlaOp TakePoints(XlaOp x, XlaOp indices) {
  const Shape shape = ShapeOf(x);
  GatherDimensionNumbers numbers;
  for (int64_t i = 0; i < shape.rank(); ++i) {
    numbers.collapsed_slice_dims.push_back(i);
    numbers.start_index_map.push_back(i);
  }
  numbers.index_vector_dim = RankOf(indices) - 1;
  return Gather(x, indices, numbers, Dims(static_cast<std::size_t>(shape.rank()), 1));
}
XlaOp WrapIndices(XlaOp indices, int64_t size) {
  if (!IsSigned(TypeOf(indices))) return indices;
  return Select(Lt(indices, Like(indices, 0)), Add(indices, Like(indices, static_cast<double>(size))), indices);
}
XlaOp PadWith(XlaOp x, XlaOp value, std::span<const std::pair<int64_t, int64_t>> padding) {
  if (std::ranges::all_of(padding, [](auto p) { return p.first == 0 && p.second == 0; })) return x;
  return Pad(x, value, MakeEdgePaddingConfig({padding.begin(), padding.end()}));
}
XlaOp ClampTo(XlaOp x, double low, double high) { return Clamp(Like(x, low), x, Like(x, high)); }
XlaOp FromLiteral(XlaBuilder* b, Literal literal) { return ConstantLiteral(b, literal); }
XlaOp FromNumbers(XlaBuilder* b, ElementType type, const std::vector<double>& values, std::span<const int64_t> dims) {
  return Convert(ConstantLiteral(b, LiteralUtil::CreateFromArray<double>(values, Ints(dims.begin(), dims.end()))),
                 type);
}

std::vector<double> NumbersOf(const Literal& literal) {
  if (!literal.shape().IsArray()) Reject("A value that must be an array is none.");
  XlaBuilder b("numbers");
  Convert(Parameter(&b, 0, literal.shape(), "x"), F64);
  const XlaComputation computation = Need(b.Build());
  const Literal* argument = &literal;
  const Literal out = Need(Evaluate(*computation.module()->entry(), {&argument, 1}));
  auto data = out.data<double>();
  return {data.begin(), data.end()};
}
Ints IntsOf(const Literal& literal) {
  const ElementType type = literal.shape().element_type();
  auto copy = [](auto data) { return Ints(data.begin(), data.end()); };
  if (type == S64) return copy(literal.data<int64_t>());
  if (type == S32) return copy(literal.data<int32_t>());
  Ints out;
  for (double value : NumbersOf(literal)) {
    if (!(std::abs(value) < 9e18)) Reject("The number {} is no index.", value);
    out.push_back(static_cast<int64_t>(value));
  }
  return out;
}

XlaOp ActivationOf(std::string_view name, double alpha, double beta, XlaOp x) {
  // Names are written as in the operators' own, and in other cases.
  const auto is = [&](std::string_view word) {
    return std::ranges::equal(name, word,
                              [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
  };
  if (is("Relu")) return Max(x, Like(x, 0));
  if (is("Tanh")) return Tanh(x);
  if (is("Sigmoid")) return Logistic(x);
  if (is("Affine")) return Add(Mul(x, Like(x, alpha)), Like(x, beta));
  if (is("LeakyRelu")) return Select(Lt(x, Like(x, 0)), Mul(x, Like(x, alpha)), x);
  if (is("ThresholdedRelu")) return Select(Gt(x, Like(x, alpha)), x, BroadcastTo(Like(x, 0), DimsOf(x)));
  if (is("ScaledTanh")) return Mul(Tanh(Mul(x, Like(x, beta))), Like(x, alpha));
  if (is("HardSigmoid")) return ClampTo(Add(Mul(x, Like(x, alpha)), Like(x, beta)), 0, 1);
  if (is("Elu")) return Select(Lt(x, Like(x, 0)), Mul(Expm1(x), Like(x, alpha)), x);
  if (is("Softsign")) return Div(x, Add(Abs(x), Like(x, 1)));
  if (is("Softplus")) return Add(Max(x, Like(x, 0)), Log1p(Exp(Neg(Abs(x)))));
  Refuse("There is no activation '{}'.", name);
}

XlaOp FusedActivation(Call& c, XlaOp x, std::optional<double> alpha, std::optional<double> beta) {
  const std::string name = c.Text("activation", "");
  if (name.empty()) return x;
  if (name == "Clip") return ClampTo(x, alpha.value_or(-INFINITY), beta.value_or(INFINITY));
  return ActivationOf(name, alpha.value_or(name == "HardSigmoid" ? 0.2F : 0.01F), beta.value_or(0.5), x);
}

}  // namespace krafla::onnx
