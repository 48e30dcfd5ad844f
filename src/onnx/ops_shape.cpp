// SPDX-License-Identifier: Apache-2.0
// What makes, moves and cuts arrays.
#include <algorithm>
#include <cmath>

#include "onnx/call.h"
#include "onnx/importer.h"
#include "onnx/moving_parts.h"

namespace krafla::onnx {

Outputs OnConstant(Call& c) {
  for (const Attribute& a : c.node.attributes) {
    if (a.name == "value" && a.t != nullptr) return {ConstantLiteral(c.b, *c.importer.FromTensor(*a.t).literal)};
    if (a.name == "value_int") return {ConstantR0<int64_t>(c.b, a.i)};
    if (a.name == "value_float") return {ConstantR0<float>(c.b, a.f)};
    if (a.name == "value_ints") return {IntList(c.b, a.ints)};
    if (a.name == "value_floats") return {ConstantR1<float>(c.b, a.floats)};
  }
  Refuse("Its value is a text or sparse, which HLO does not have.");
}
namespace {
// The part of a vector of sizes that stands for one dimension.
XlaOp SizeAt(XlaOp sizes, int64_t i) { return Convert(Reshape(SliceInDim(sizes, i, i + 1, 1, 0), {}), S32); }
}  // namespace
Outputs OnConstantOfShape(Call& c) {
  const Call::Sizes sizes = c.SizesIn(0, "the shape");
  Volume(sizes.most);
  const Attribute* value = c.Find("value");
  const XlaOp one = value != nullptr && value->t != nullptr
                        ? Reshape(ConstantLiteral(c.b, *c.importer.FromTensor(*value->t).literal), {})
                        : Zero(c.b, F32);
  XlaOp out = BroadcastTo(one, sizes.most);
  for (std::size_t i = 0; i < sizes.most.size(); ++i)
    if (!sizes.is_known[i])
      out = SetDimensionSize(out, SizeAt(c.In(0), static_cast<int64_t>(i)), static_cast<int64_t>(i));
  return {out};
}
Outputs OnShape(Call& c) {
  const Ints dims = DimsOf(c.ShapeOf(0));
  const auto rank = static_cast<int64_t>(dims.size());
  auto bound = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t first = bound(c.Int("start", 0)), last = std::max(first, bound(c.Int("end", rank)));
  if (c.ShapeOf(0).IsDynamic()) {
    Outputs sizes;
    for (int64_t d = first; d < last; ++d) sizes.push_back(Reshape(Convert(GetDimensionSize(c.In(0), d), S64), {1}));
    if (!sizes.empty()) return {ConcatInDim(c.b, sizes, 0)};
  }
  return {
      IntList(c.b, std::span(dims).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first)))};
}
Outputs OnSize(Call& c) {
  const Shape& shape = c.ShapeOf(0);
  if (!shape.IsDynamic()) return {ConstantR0<int64_t>(c.b, shape.element_count())};
  int64_t known = 1;
  XlaOp count;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    if (!shape.IsDynamicDim(d)) {
      known *= shape.dim(d);
      continue;
    }
    const XlaOp size = Convert(GetDimensionSize(c.In(0), d), S64);
    count = count.IsUninitialized() ? size : Mul(count, size);
  }
  return {Mul(count, ConstantR0<int64_t>(c.b, known))};
}
namespace {
// A reshape whose size at `open` is what is left: it is the run-time size where it stands at the place of the only one.
// Reshaped would take another dimension of one element for it.
XlaOp ReshapedWithOpen(XlaOp x, const Ints& dims, std::size_t open) {
  const Shape shape = ShapeOf(x);
  Outputs from = SizesOf(x), sizes(dims.size());
  const auto is_run_time = [](XlaOp size) { return !size.IsUninitialized(); };
  const auto found = std::ranges::find_if(from, is_run_time);
  const auto d = static_cast<std::size_t>(found - from.begin());
  const Ints old = DimsOf(shape);
  if (std::ranges::count_if(from, is_run_time) != 1 || old[d] != dims[open] ||
      Volume(std::span(old).first(d)) != Volume(std::span(dims).first(open)))
    return Reshaped(x, dims);
  sizes[open] = *found;
  return WithSizes(Reshape(WholeOf(x), dims), sizes);
}
}  // namespace
Outputs OnReshape(Call& c) {
  const Ints from = DimsOf(c.ShapeOf(0));
  const Call::Sizes sizes = c.SizesIn(1, "the shape");
  if (!sizes.all_known() && !c.ShapeOf(0).IsDynamic())
    Refuse("{} cannot be reshaped to sizes that depend on the data.", c.ShapeOf(0).ToString(false));
  Ints to = sizes.most;
  const bool zero_stays = c.Int("allowzero", 0) != 0;
  int64_t open = -1, rest = 1;
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (to[i] == 0 && !zero_stays) {
      if (i >= from.size()) Reject("Dimension {} of the new shape is 0, and the operand has only {}.", i, from.size());
      to[i] = from[i];
    }
    if (to[i] < -1) Reject("The new shape has a dimension of {}.", to[i]);
    if (to[i] != -1) continue;
    if (open >= 0) Reject("The new shape leaves two dimensions open.");
    open = static_cast<int64_t>(i);
  }
  for (int64_t d : to) rest = d == -1 ? rest : Volume(Ints{rest, d});
  if (open < 0) return {Reshaped(c.In(0), to)};
  to[static_cast<std::size_t>(open)] = rest == 0 ? 0 : Volume(from) / rest;
  return {ReshapedWithOpen(c.In(0), to, static_cast<std::size_t>(open))};
}
Outputs OnFlatten(Call& c) {
  const Ints from = DimsOf(c.ShapeOf(0));
  const auto rank = static_cast<int64_t>(from.size());
  const int64_t given = c.Int("axis", 1), axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis > rank) Reject("The axis {} is outside of an array of {} dimensions.", given, rank);
  const auto cut = static_cast<std::size_t>(axis);
  const Ints to = {Volume(std::span(from).first(cut)), Volume(std::span(from).subspan(cut))};
  return {Reshaped(c.In(0), to)};
}
Outputs OnTranspose(Call& c) {
  const int64_t rank = c.ShapeOf(0).rank();
  Ints order = Range(0, rank);
  std::ranges::reverse(order);
  order = c.List("perm").value_or(order);
  for (int64_t& axis : order) axis = Axis(axis, rank);
  return {TransposeTo(c.In(0), order)};
}
Outputs OnSqueeze(Call& c) {
  const Ints from = DimsOf(c.ShapeOf(0));
  const std::optional<Ints> given = c.Axes(1);
  std::vector<bool> drop(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) drop[i] = !given && from[i] == 1;
  if (given)
    for (int64_t axis : *given) drop[static_cast<std::size_t>(Axis(axis, static_cast<int64_t>(from.size())))] = true;
  Ints to;
  for (std::size_t i = 0; i < from.size(); ++i)
    if (!drop[i]) to.push_back(from[i]);
    else if (from[i] != 1) Reject("Dimension {} of size {} cannot be squeezed.", i, from[i]);
  return {Reshaped(c.In(0), to)};
}
Outputs OnUnsqueeze(Call& c) {
  Ints dims = DimsOf(c.ShapeOf(0));
  const std::optional<Ints> given = c.Axes(1);
  if (!given) Reject("It has no axes.");
  const auto rank = static_cast<int64_t>(dims.size() + given->size());
  Ints axes;
  for (int64_t axis : *given) axes.push_back(Axis(axis, rank));
  std::ranges::sort(axes);
  for (int64_t axis : axes) {
    if (axis > static_cast<int64_t>(dims.size())) Reject("The axes are given twice.");
    dims.insert(dims.begin() + axis, 1);
  }
  return {Reshaped(c.In(0), dims)};
}
Outputs OnConcat(Call& c) {
  Outputs parts;
  for (std::size_t i = 0; i < c.count(); ++i) parts.push_back(c.In(i));
  if (parts.empty()) Reject("It has no operands.");
  const int64_t axis = Axis(c.Int("axis", 1), RankOf(parts[0]));
  return {parts.size() == 1 ? parts[0] : ConcatInDim(c.b, parts, axis)};
}
Outputs OnSplit(Call& c) {
  const XlaOp x = c.In(0);
  const Ints dims = DimsOf(x);
  const int64_t axis = Axis(c.Int("axis", 0), RankOf(x)), size = dims[static_cast<std::size_t>(axis)];
  if (ShapeOf(x).IsDynamicDim(axis)) Refuse("The size that is split depends on the data.");
  Ints sizes;
  if (c.Has(1)) sizes = c.KnownInts(1, "the split");
  else if (auto list = c.List("split")) sizes = *list;
  else {
    const auto parts = static_cast<int64_t>(c.node.outputs.size());
    const int64_t each = parts == 0 ? 0 : (size + parts - 1) / parts;
    for (int64_t i = 0; i < parts; ++i) sizes.push_back(std::clamp<int64_t>(size - i * each, 0, each));
  }
  Outputs out;
  int64_t at = 0;
  for (int64_t part : sizes) {
    if (part < 0 || part > size - at) Reject("The parts do not fit the dimension of {}.", size);
    out.push_back(SliceInDim(x, at, at + part, 1, axis));
    at += part;
  }
  return out;
}
namespace {
// As many elements from the beginning as an input says that is not known while importing; nothing where parts are asked
// for that lie elsewhere.
std::optional<XlaOp> FirstOnes(Call& c) {
  if (!c.IsKnown(1) || (c.Has(3) && !c.IsKnown(3)) || (c.Has(4) && !c.IsKnown(4))) return std::nullopt;
  const Ints starts = c.KnownInts(1, "starts"), steps = c.Has(4) ? c.KnownInts(4, "steps") : Ints(starts.size(), 1);
  const Ints axes = c.Has(3) ? c.KnownInts(3, "axes") : Range(0, static_cast<int64_t>(starts.size()));
  const auto count = static_cast<int64_t>(starts.size());
  if (std::ranges::any_of(starts, [](int64_t at) { return at != 0; }) ||
      std::ranges::any_of(steps, [](int64_t step) { return step != 1; }))
    return std::nullopt;
  XlaOp x = c.In(0);
  const XlaOp ends = Convert(c.In(2), S64);
  if (DimsOf(ends) != Ints{count} || axes.size() != starts.size() || steps.size() != starts.size())
    Reject("Starts, ends, axes and steps are of unequal lengths.");
  for (int64_t i = 0; i < count; ++i) {
    const int64_t axis = Axis(axes[static_cast<std::size_t>(i)], RankOf(x));
    const XlaOp size = Convert(GetDimensionSize(x, axis), S64), end = Reshape(SliceInDim(ends, i, i + 1, 1, 0), {});
    const XlaOp zero = Like(end, 0);
    const XlaOp limit = Clamp(zero, Select(Lt(end, zero), Add(end, size), end), size);
    if (ShapeOf(x).IsDynamicDim(axis)) x = RemoveDynamicDimension(x, axis);
    x = SetDimensionSize(x, Convert(limit, S32), axis);
  }
  return x;
}
}  // namespace
Outputs OnSlice(Call& c) {
  if (c.opset >= 10 && c.Has(2) && !c.IsKnown(2))
    if (auto first = FirstOnes(c)) return {*first};
  if (c.opset >= 10 && c.Has(1) && c.Has(2) && !(c.IsKnown(1) && c.IsKnown(2))) {
    c.LeaveToTheProgram();
    return {MovingPart(c)};
  }
  XlaOp x = c.In(0);
  const Shape shape = ShapeOf(x);
  const Ints dims = DimsOf(shape);
  const bool by_inputs = c.opset >= 10;
  auto list = [&](std::size_t input, const char* attribute) -> std::optional<Ints> {
    if (!by_inputs) return c.List(attribute);
    if (!c.Has(input)) return std::nullopt;
    return c.KnownInts(input, attribute);
  };
  const Ints starts = list(1, "starts").value_or(Ints{}), ends = list(2, "ends").value_or(Ints{});
  const Ints axes = list(3, "axes").value_or(Range(0, static_cast<int64_t>(starts.size())));
  const Ints steps = list(4, "steps").value_or(Ints(starts.size(), 1));
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    Reject("Starts, ends, axes and steps are of unequal lengths.");
  Ints first(dims.size(), 0), limit = dims, stride(dims.size(), 1), reversed;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto axis = static_cast<std::size_t>(Axis(axes[i], static_cast<int64_t>(dims.size())));
    const int64_t size = dims[axis], step = steps[i];
    if (step == 0 || step == INT64_MIN) Reject("The step is {}.", step);
    if (shape.IsDynamicDim(static_cast<int64_t>(axis)) && (step != 1 || starts[i] != 0 || ends[i] < 0)) {
      if (by_inputs && starts.size() == 1 && step == 1) return {MovingPart(c)};
      Refuse("Of {}, whose size depends on the data, a part from the beginning or along one axis is supported.",
             shape.ToString(false));
    }
    auto place = [&](int64_t at, int64_t low, int64_t high) { return std::clamp(at < 0 ? at + size : at, low, high); };
    if (step > 0) {
      first[axis] = place(starts[i], 0, size);
      limit[axis] = std::max(first[axis], place(ends[i], 0, size));
      stride[axis] = std::min<int64_t>(step, std::max<int64_t>(size, 1));
      continue;
    }
    // Backwards: the same elements forwards, then reversed.
    // A start before the array is its first element, as the standard has it; NumPy begins with none.
    const int64_t from = size == 0 ? -1 : place(starts[i], 0, size - 1),
                  to = std::min(from, place(ends[i], -1, size - 1));
    const int64_t back = std::min<int64_t>(-step, std::max<int64_t>(size, 1)), count = (from - to + back - 1) / back;
    first[axis] = count == 0 ? 0 : from - (count - 1) * back;
    limit[axis] = count == 0 ? 0 : from + 1;
    stride[axis] = back;
    reversed.push_back(static_cast<int64_t>(axis));
  }
  Outputs sizes(dims.size());
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const auto axis = static_cast<int64_t>(d);
    if (!shape.IsDynamicDim(axis) || limit[d] == dims[d]) continue;
    sizes[d] = Min(GetDimensionSize(x, axis), Number(c.b, S32, static_cast<double>(limit[d])));
    x = RemoveDynamicDimension(x, axis);
  }
  x = Slice(x, first, limit, stride);
  x = WithSizes(x, sizes);
  return {reversed.empty() ? x : Rev(x, reversed)};
}
Outputs OnExpand(Call& c) {
  const Call::Sizes sizes = c.SizesIn(1, "the shape");
  const Shape shape = c.ShapeOf(0);
  const Ints out = BroadcastDims(DimsOf(shape), sizes.most);
  Volume(out);
  XlaOp x = BroadcastTo(c.In(0), out);
  const auto rank = static_cast<int64_t>(out.size()), given = static_cast<int64_t>(sizes.most.size());
  for (int64_t i = 0; i < given; ++i) {
    const int64_t to = i + rank - given, from = to - (rank - shape.rank());
    // A size beside one of the operand is that, or 1.
    if (sizes.is_known[static_cast<std::size_t>(i)] ||
        (from >= 0 && shape.dim(from) == out[static_cast<std::size_t>(to)] && shape.dim(from) != 1))
      continue;
    x = SetDimensionSize(x, SizeAt(c.In(1), i), to);
  }
  return {x};
}
Outputs OnTile(Call& c) {
  const XlaOp x = c.In(0);
  const Ints dims = DimsOf(x), repeats = c.KnownInts(1, "the repeats");
  if (repeats.size() != dims.size()) Reject("It has {} repeats for {} dimensions.", repeats.size(), dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (ShapeOf(x).IsDynamicDim(static_cast<int64_t>(i)) && repeats[i] != 1)
      Refuse("Dimension {} of {}, whose size depends on the data, cannot be repeated.", i, ShapeOf(x).ToString(false));
  Ints wide, places, out;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    wide.push_back(repeats[i]);
    wide.push_back(dims[i]);
    places.push_back(static_cast<int64_t>(2 * i + 1));
    out.push_back(Volume(Ints{repeats[i], dims[i]}));
  }
  Volume(out);
  return {WithSizes(Reshape(BroadcastInDim(WholeOf(x), wide, places), out), SizesOf(x))};
}
Outputs OnPad(Call& c) {
  XlaOp x = c.In(0);
  const Ints dims = DimsOf(x);
  const Ints pads = c.opset >= 11 ? c.KnownInts(1, "the padding") : c.List("pads").value_or(Ints{});
  Ints axes = Range(0, static_cast<int64_t>(dims.size()));
  if (c.Has(3)) axes = c.KnownInts(3, "the axes");
  if (pads.size() != 2 * axes.size()) Reject("It has {} paddings for {} dimensions.", pads.size(), axes.size());
  const std::string mode = c.Text("mode", "constant");
  std::vector<std::pair<int64_t, int64_t>> padding(dims.size());
  for (std::size_t i = 0; i < axes.size(); ++i)
    padding[static_cast<std::size_t>(Axis(axes[i], static_cast<int64_t>(dims.size())))] = {pads[i],
                                                                                           pads[i + axes.size()]};
  for (auto [low, high] : padding)
    if (!IsWithin(low, int64_t{1} << 40) || !IsWithin(high, int64_t{1} << 40))
      Reject("A padding of {} and {}.", low, high);
  if (mode == "constant") {
    XlaOp value = c.opset < 11 ? Like(x, c.Float("value", 0)) : c.Has(2) ? Reshape(c.In(2), {}) : Zero(c.b, TypeOf(x));
    return {PadWith(x, Convert(value, TypeOf(x)), padding)};
  }
  for (std::size_t d = 0; d < dims.size(); ++d) {
    auto [low, high] = padding[d];
    if (low == 0 && high == 0) continue;
    // What negative paddings take away is not there any more to be repeated, as in ONNX Runtime.
    const int64_t first = std::max<int64_t>(-low, 0), size = dims[d] - first - std::max<int64_t>(-high, 0);
    low = std::max<int64_t>(low, 0);
    high = std::max<int64_t>(high, 0);
    if (size < 0 || size + low + high > (1 << 24) || (size == 0 && low + high > 0))
      Reject("A padding of {} and {} to a dimension of {}.", padding[d].first, padding[d].second, dims[d]);
    Ints places;
    for (int64_t i = -low; i < size + high; ++i) {
      int64_t at = i;
      if (mode == "edge") at = std::clamp<int64_t>(i, 0, size - 1);
      else if (mode == "wrap") at = ((i % size) + size) % size;
      else if (mode == "reflect") {
        const int64_t period = std::max<int64_t>(2 * (size - 1), 1);
        at = ((i % period) + period) % period;
        at = size == 1 ? 0 : std::min(at, period - at);
      } else Refuse("The mode '{}' is unknown.", mode);
      places.push_back(first + at);
    }
    x = TakeAt(x, static_cast<int64_t>(d), places);
  }
  return {x};
}
Outputs OnDepthToSpace(Call& c) {
  const XlaOp x = c.In(0);
  const Ints d = DimsOf(x);
  const int64_t s = c.Int("blocksize");
  if (d.size() != 4 || s <= 0 || s > (1 << 20) || d[1] % (s * s) != 0)
    Reject("Its operand must be [N, C * {0} * {0}, H, W].", s);
  const int64_t depth = d[1] / (s * s);
  if (c.Text("mode", "DCR") == "DCR")
    return {Reshape(Transpose(Reshape(x, {d[0], s, s, depth, d[2], d[3]}), {0, 3, 4, 1, 5, 2}),
                    {d[0], depth, d[2] * s, d[3] * s})};
  return {Reshape(Transpose(Reshape(x, {d[0], depth, s, s, d[2], d[3]}), {0, 1, 4, 2, 5, 3}),
                  {d[0], depth, d[2] * s, d[3] * s})};
}
Outputs OnSpaceToDepth(Call& c) {
  const XlaOp x = c.In(0);
  const Ints d = DimsOf(x);
  const int64_t s = c.Int("blocksize");
  if (d.size() != 4 || s <= 0 || s > (1 << 20) || d[2] % s != 0 || d[3] % s != 0)
    Reject("Its operand must be [N, C, H * {0}, W * {0}].", s);
  const bool depth_first = c.Text("mode", "DCR") == "DCR";
  return {Reshape(Transpose(Reshape(x, {d[0], d[1], d[2] / s, s, d[3] / s, s}),
                            depth_first ? Dims{0, 3, 5, 1, 2, 4} : Dims{0, 1, 3, 5, 2, 4}),
                  {d[0], d[1] * s * s, d[2] / s, d[3] / s})};
}
namespace {
// Of known numbers; as doubles, and of 64 bits as they are.
double CountOfRange(Call& c, ElementType type) {
  if (!IsIntegral(type))
    return std::ceil((c.KnownNumbers(1, "the limit")[0] - c.KnownNumbers(0, "the start")[0]) /
                     c.KnownNumbers(2, "the step")[0]);
  const int64_t start = c.KnownInts(0, "the start").at(0), limit = c.KnownInts(1, "the limit").at(0),
                step = c.KnownInts(2, "the step").at(0);
  if (step == 0) Reject("The step is 0.");
  if (step > 0 ? limit <= start : limit >= start) return 0;
  const auto bits = [](int64_t v) { return static_cast<uint64_t>(v); };
  const uint64_t length = step > 0 ? bits(limit) - bits(start) : bits(start) - bits(limit);
  const uint64_t stride = step > 0 ? bits(step) : 0 - bits(step);
  return static_cast<double>(length / stride + (length % stride != 0 ? 1 : 0));
}
}  // namespace
Outputs OnRange(Call& c) {
  const ElementType type = c.TypeOf(0);
  if (!IsFloat(type) && c.IsKnown(2) && c.KnownNumbers(2, "the step")[0] == 1)
    if (const auto most = MostBetween(c.ValueOf(0), c.ValueOf(1))) return {MovingRange(c, *most)};
  const double start = c.KnownNumbers(0, "the start")[0], step = c.KnownNumbers(2, "the step")[0];
  XlaOp size;  // where the limit depends on the data
  double count = 0;
  if (!c.IsKnown(1) && start == 0 && step == 1 && !IsFloat(type)) {
    count = static_cast<double>(c.SizesIn(1, "the limit").most.at(0));
    size = Convert(Reshape(c.In(1), {}), S32);
  } else {
    count = CountOfRange(c, type);
  }
  count = std::max(0.0, count);
  if (!(count < 1e9)) Reject("A range of {} elements.", count);
  const auto n = static_cast<int64_t>(count);
  const XlaOp steps = Convert(Iota(c.b, S64, n), type);
  const XlaOp out = Add(BroadcastTo(c.In(0), Ints{n}), Mul(steps, BroadcastTo(c.In(2), Ints{n})));
  return {size.IsUninitialized() ? out : SetDimensionSize(out, size, 0)};
}
Outputs OnEyeLike(Call& c) {
  const Shape& shape = c.ShapeOf(0);
  if (shape.rank() != 2) Reject("EyeLike takes a matrix.");
  const ElementType type = c.Find("dtype") != nullptr ? ToElementType(c.Int("dtype")) : shape.element_type();
  const Shape index = shape.WithElementType(S64);
  const XlaOp rows = Iota(c.b, index, 0), columns = Iota(c.b, index, 1);
  return {Convert(Eq(Sub(columns, rows), BroadcastTo(ConstantR0<int64_t>(c.b, c.Int("k", 0)), DimsOf(shape))), type)};
}
Outputs OnTrilu(Call& c) {
  const XlaOp x = c.In(0);
  const Shape shape = ShapeOf(x);
  if (shape.rank() < 2) Reject("Trilu takes matrices.");
  const XlaOp rows = Iota(c.b, shape.WithElementType(S64), shape.rank() - 2);
  const XlaOp columns = Iota(c.b, shape.WithElementType(S64), shape.rank() - 1);
  const XlaOp k = c.Has(1) ? BroadcastTo(Reshape(c.In(1), {}), DimsOf(shape)) : Filled(c.b, S64, DimsOf(shape), 0);
  const XlaOp to_the_right = Sub(columns, rows),
              keep = c.Int("upper", 1) != 0 ? Ge(to_the_right, k) : Le(to_the_right, k);
  return {Select(keep, x, BroadcastTo(Zero(c.b, shape.element_type()), DimsOf(shape)))};
}
Outputs OnCenterCropPad(Call& c) {
  XlaOp x = c.In(0);
  const Ints dims = DimsOf(x), to = c.KnownInts(1, "the shape");
  const Ints axes = c.List("axes").value_or(Range(0, static_cast<int64_t>(dims.size())));
  if (axes.size() != to.size()) Reject("It has {} sizes for {} axes.", to.size(), axes.size());
  std::vector<std::pair<int64_t, int64_t>> padding(dims.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(Axis(axes[i], static_cast<int64_t>(dims.size())));
    const int64_t more = to[i] - dims[axis];
    if (to[i] < 0 || to[i] > (int64_t{1} << 40)) Reject("A size of {}.", to[i]);
    const int64_t low = more >= 0 ? more / 2 : -(-more / 2);
    padding[axis] = {low, more - low};
  }
  return {PadWith(x, Zero(c.b, TypeOf(x)), padding)};
}
namespace {

// Which step a sequence has at each: s64 of `places`, whose dimensions `batch` and `time` are the sequences and steps.
XlaOp ReversedSteps(XlaOp lengths, const Shape& places, int64_t batch, int64_t time) {
  const XlaOp length = AlongAxis(Convert(lengths, S64), places.dims(), batch);
  const XlaOp step = Iota(lengths.builder(), places, time);
  return Select(Lt(step, length), Sub(Sub(length, Like(length, 1)), step), step);
}

}  // namespace

Outputs OnReverseSequence(Call& c) {
  const XlaOp x = c.In(0);
  const Shape shape = ShapeOf(x);
  const int64_t batch = Axis(c.Int("batch_axis", 1), shape.rank()), time = Axis(c.Int("time_axis", 0), shape.rank());
  if (batch == time) Reject("The sequences and their steps are one dimension, {}.", batch);
  const Ints dims = DimsOf(shape);
  if (shape.IsDynamic()) {
    const Shape places = shape.WithElementType(S64);
    Outputs index;
    Ints one = dims;
    one.push_back(1);
    for (int64_t d = 0; d < shape.rank(); ++d)
      index.push_back(Reshape(d == time ? ReversedSteps(c.In(1), places, batch, time) : Iota(c.b, places, d), one));
    return {TakePoints(x, ConcatInDim(c.b, index, shape.rank()))};
  }
  // Windows over all other dimensions are taken, one for each sequence and step.
  const int64_t first = std::min(batch, time), second = std::max(batch, time);
  const Ints extents = {shape.dim(first), shape.dim(second)}, point = {extents[0], extents[1], 1};
  const Shape places = MakeShape(S64, extents);
  const int64_t sequence_dim = batch == first ? 0 : 1;
  const XlaOp from = ReversedSteps(c.In(1), places, sequence_dim, 1 - sequence_dim);
  GatherDimensionNumbers numbers;
  numbers.collapsed_slice_dims = {first, second};
  numbers.start_index_map = {batch, time};
  numbers.index_vector_dim = 2;
  Ints sizes = dims;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    if (d == first || d == second) sizes[static_cast<std::size_t>(d)] = 1;
    else numbers.offset_dims.push_back(d);
  }
  const XlaOp index = ConcatInDim(c.b, {Reshape(Iota(c.b, places, sequence_dim), point), Reshape(from, point)}, 2);
  return {Gather(x, index, numbers, sizes)};
}

}  // namespace krafla::onnx
