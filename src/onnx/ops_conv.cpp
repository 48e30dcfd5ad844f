// SPDX-License-Identifier: Apache-2.0
// Convolutions and pools: windows over [N, C, space...].
#include <algorithm>
#include <cmath>

#include "onnx/quantised.h"

namespace krafla::onnx {
namespace {

using Padding2 = std::vector<std::pair<int64_t, int64_t>>;
constexpr int64_t kMost = 1 << 24;

struct Window {
  Ints size, strides, dilations;
  Padding2 padding;
  bool ceil = false;
};
Ints Checked(Ints list, std::size_t rank, const char* what) {
  if (list.size() != rank) Reject("The attribute {} must have {} numbers.", what, rank);
  for (int64_t v : list)
    if (v <= 0 || v > kMost) Reject("The attribute {} has a {}.", what, v);
  return list;
}
Window ReadWindow(Call& c, const Ints& dims, Ints size) {
  if (dims.size() < 2) Reject("Its operand must be [N, C, space...].");
  const std::size_t rank = dims.size() - 2;
  Window w;
  w.size = Checked(std::move(size), rank, "kernel_shape");
  w.strides = Checked(c.List("strides").value_or(Ints(rank, 1)), rank, "strides");
  w.dilations = Checked(c.List("dilations").value_or(Ints(rank, 1)), rank, "dilations");
  w.ceil = c.Int("ceil_mode", 0) != 0;
  const std::string mode = c.Text("auto_pad", "NOTSET");
  const Ints pads = c.List("pads").value_or(Ints(2 * rank, 0));
  if (pads.size() != 2 * rank) Reject("The attribute pads must have {} numbers.", 2 * rank);
  for (std::size_t i = 0; i < rank; ++i) {
    if (!IsWithin(pads[i], kMost) || !IsWithin(pads[i + rank], kMost))
      Reject("A padding of {} and {}.", pads[i], pads[i + rank]);
    if (mode == "NOTSET" || mode.empty()) {
      w.padding.emplace_back(pads[i], pads[i + rank]);
    } else if (mode == "VALID") {
      w.padding.emplace_back(0, 0);
    } else {
      const int64_t n = dims[i + 2], out = (n + w.strides[i] - 1) / w.strides[i];
      const int64_t all = std::max<int64_t>((out - 1) * w.strides[i] + (w.size[i] - 1) * w.dilations[i] + 1 - n, 0);
      w.padding.push_back(mode == "SAME_UPPER" ? std::pair{all / 2, all - all / 2} : std::pair{all - all / 2, all / 2});
    }
  }
  return w;
}
ConvolutionDimensionNumbers Numbers(std::size_t spatial) {
  return DefaultConvDimensionNumbers(static_cast<int64_t>(spatial));
}
XlaOp AddBias(Call& c, std::size_t input, XlaOp y) {
  return c.Has(input) ? Add(y, AlongAxis(Convert(c.In(input), TypeOf(y)), DimsOf(y), 1)) : y;
}

}  // namespace

XlaOp ConvolutionOf(Call& c, XlaOp x, XlaOp w, std::optional<ElementType> type, XlaOp fill) {
  const Ints dims = DimsOf(x), kernel = DimsOf(w);
  if (kernel.size() != dims.size() || dims.size() < 3)
    Reject("It convolves {} and {} dimensions.", dims.size(), kernel.size());
  Window window = ReadWindow(c, dims, Ints(kernel.begin() + 2, kernel.end()));
  if (!fill.IsUninitialized() && std::ranges::any_of(window.padding, [](auto p) { return p != std::pair(0L, 0L); })) {
    Padding2 all(2);
    all.insert(all.end(), window.padding.begin(), window.padding.end());
    x = PadWith(x, fill, all);
    window.padding.assign(window.padding.size(), {0, 0});
  }
  return ConvGeneralDilated(x, w, window.strides, window.padding, Ints(window.size.size(), 1), window.dilations,
                            Numbers(window.size.size()), c.Int("group", 1), 1, nullptr, type);
}
Outputs OnConv(Call& c) {
  std::optional<XlaOp> y = ProductOfQuantised(c, 0, 1, IntegerConvolution);
  if (!y) y = ConvolutionOf(c, c.In(0), c.In(1), std::nullopt);
  return {AddBias(c, 2, *y)};
}
// com.microsoft: besides, Z is added, and an activation follows.
Outputs OnFusedConv(Call& c) {
  XlaOp y = OnConv(c)[0];
  if (c.Has(3)) y = Add(y, c.In(3));
  const std::vector<float> given = c.Floats("activation_params").value_or(std::vector<float>());
  const auto number = [&](std::size_t i) { return i < given.size() ? std::optional(double{given[i]}) : std::nullopt; };
  return {FusedActivation(c, y, number(0), number(1))};
}
Outputs OnConvTranspose(Call& c) {
  const XlaOp x = c.In(0);
  XlaOp w = c.In(1);
  const Ints dims = DimsOf(x), kernel = DimsOf(w);
  if (kernel.size() != dims.size() || dims.size() < 3)
    Reject("It convolves {} and {} dimensions.", dims.size(), kernel.size());
  const std::size_t rank = dims.size() - 2;
  const Ints size = Checked(Ints(kernel.begin() + 2, kernel.end()), rank, "kernel_shape");
  const Ints strides = Checked(c.List("strides").value_or(Ints(rank, 1)), rank, "strides");
  const Ints dilations = Checked(c.List("dilations").value_or(Ints(rank, 1)), rank, "dilations");
  const Ints extra = c.List("output_padding").value_or(Ints(rank, 0)),
             pads = c.List("pads").value_or(Ints(2 * rank, 0));
  std::optional<Ints> shape = c.List("output_shape");
  if (shape && shape->size() == rank + 2) shape->erase(shape->begin(), shape->begin() + 2);
  if (extra.size() != rank || pads.size() != 2 * rank || (shape && shape->size() != rank))
    Reject("Its attributes are of wrong lengths.");
  const std::string mode = c.Text("auto_pad", "NOTSET");
  Padding2 padding;
  for (std::size_t i = 0; i < rank; ++i) {
    const int64_t reach = (size[i] - 1) * dilations[i];
    int64_t low = pads[i], high = pads[i + rank];
    if (!IsWithin(low, kMost) || !IsWithin(high, kMost) || !IsWithin(extra[i], kMost))
      Reject("A padding of {} and {}.", low, high);
    if (shape && !IsWithin((*shape)[i], kMost)) Reject("An output_shape of {}.", (*shape)[i]);
    const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
    if (shape || same) {
      const int64_t want = shape ? (*shape)[i] : dims[i + 2] * strides[i];
      const int64_t all = (dims[i + 2] - 1) * strides[i] + extra[i] + reach + 1 - want;
      // Of an odd padding the smaller half goes to the beginning by SAME_UPPER alone; what a result is larger than the
      // windows reach lies at its end.
      low = all < 0 ? 0 : mode == "SAME_UPPER" ? all / 2 : all - all / 2;
      high = all - low;
    } else if (mode == "VALID") low = high = 0;
    padding.emplace_back(reach - low, reach - high + extra[i]);
  }
  // The kernel is [C, M / g, ...]; as a convolution it is [M, C / g, ...], reversed.
  const int64_t groups = c.Int("group", 1);
  if (groups <= 0 || kernel[0] % groups != 0) Reject("It has {} groups.", groups);
  Ints split = {groups, kernel[0] / groups, kernel[1]}, order = {0, 2, 1},
       joined = {groups * kernel[1], kernel[0] / groups};
  split.insert(split.end(), size.begin(), size.end());
  joined.insert(joined.end(), size.begin(), size.end());
  for (std::size_t i = 0; i < rank; ++i) order.push_back(static_cast<int64_t>(i + 3));
  w = Rev(Reshape(Transpose(Reshape(w, split), order), joined), Range(2, static_cast<int64_t>(rank + 2)));
  const XlaOp y = ConvGeneralDilated(x, w, Ints(rank, 1), padding, strides, dilations, Numbers(rank), groups);
  return {AddBias(c, 2, y)};
}

namespace {
// The padding that the last window of a ceiled size needs; a window that begins behind the padded input is left out.
int64_t CeilPadding(int64_t n, const Window& w, std::size_t i) {
  const int64_t reach = (w.size[i] - 1) * w.dilations[i] + 1, all = n + w.padding[i].first + w.padding[i].second;
  if (!w.ceil) return 0;
  // A window that is larger than the input is one, if by less than a stride.
  const int64_t steps =
      all >= reach ? (all - reach + w.strides[i] - 1) / w.strides[i] : -((reach - all) / w.strides[i]);
  int64_t out = steps + 1;
  if (out <= 0) return 0;
  if ((out - 1) * w.strides[i] >= n + w.padding[i].first) --out;
  return std::max<int64_t>((out - 1) * w.strides[i] + reach - all, 0);
}
struct FullWindow {
  Ints size{1, 1}, strides{1, 1}, dilations{1, 1};
  Padding2 padding{{0, 0}, {0, 0}}, given{{0, 0}, {0, 0}};
};
FullWindow Full(const Window& w, const Ints& dims) {
  FullWindow out;
  for (std::size_t i = 0; i < w.size.size(); ++i) {
    const int64_t n = dims[i + 2], all = n + w.padding[i].first + w.padding[i].second;
    const int64_t reach = (w.size[i] - 1) * w.dilations[i] + 1, more = CeilPadding(n, w, i);
    // What one window has beyond all that there is holds nothing.
    const bool is_larger = w.ceil && reach > all && all > 0 && more > 0;
    out.size.push_back(is_larger ? (all - 1) / w.dilations[i] + 1 : w.size[i]);
    out.strides.push_back(w.strides[i]);
    out.dilations.push_back(w.dilations[i]);
    out.given.push_back(w.padding[i]);
    out.padding.emplace_back(w.padding[i].first, w.padding[i].second + (is_larger ? 0 : more));
  }
  return out;
}
XlaOp Pooled(XlaOp x, XlaOp start, const XlaComputation& fold, const FullWindow& w) {
  return ReduceWindowWithGeneralPadding(x, start, fold, w.size, w.strides, Ints(w.size.size(), 1), w.dilations,
                                        w.padding);
}
Ints KernelShape(Call& c) {
  const auto size = c.List("kernel_shape");
  if (!size) Reject("The attribute 'kernel_shape' is missing.");
  return *size;
}
}  // namespace

Outputs OnMaxPool(Call& c) {
  const XlaOp x = c.In(0);
  const Shape shape = ShapeOf(x);
  const Ints dims = DimsOf(shape);
  const ElementType type = shape.element_type();
  const FullWindow w = Full(ReadWindow(c, dims, KernelShape(c)), dims);
  if (!c.Wants(1)) return {Pooled(x, Lowest(c.b, type), Larger(type), w)};
  // With the place of each maximum, counted in the whole array.
  XlaOp place = Iota(c.b, MakeShape(S64, Ints{shape.element_count()}), 0);
  if (c.Int("storage_order", 0) != 0) {
    Ints turned = dims, order = Range(0, static_cast<int64_t>(dims.size()));
    std::reverse(turned.begin() + 2, turned.end());
    std::reverse(order.begin() + 2, order.end());
    place = Transpose(Reshape(place, turned), order);
  } else place = Reshape(place, dims);
  XlaBuilder pick("pick");
  const Shape value = Shape::MakeScalar(type), index = Shape::MakeScalar(S64);
  const XlaOp v0 = Parameter(&pick, 0, value, "v0"), i0 = Parameter(&pick, 1, index, "i0");
  const XlaOp v1 = Parameter(&pick, 2, value, "v1"), i1 = Parameter(&pick, 3, index, "i1");
  const XlaOp takes = Or(Gt(v0, v1), And(Eq(v0, v1), Lt(i0, i1)));
  Tuple(&pick, {Select(takes, v0, v1), Select(takes, i0, i1)});
  const XlaOp both = ReduceWindowWithGeneralPadding(
      {x, place}, {Lowest(c.b, type), ConstantR0<int64_t>(c.b, INT64_MAX)}, Need(pick.Build()), w.size, w.strides,
      Ints(w.size.size(), 1), w.dilations, w.padding);
  return {GetTupleElement(both, 0), GetTupleElement(both, 1)};
}
XlaOp AveragePoolOf(Call& c, XlaOp x) {
  const Ints dims = DimsOf(x);
  const ElementType type = TypeOf(x), work = IsSmallFloat(type) ? F32 : type;
  const FullWindow w = Full(ReadWindow(c, dims, KernelShape(c)), dims);
  const XlaOp sum = Pooled(Convert(x, work), Zero(c.b, work), Adder(work), w);
  const bool with_padding = c.Int("count_include_pad", 0) != 0;
  const bool is_even = std::ranges::all_of(w.padding, [](auto p) { return p.first == 0 && p.second == 0; }) ||
                       (with_padding && w.padding == w.given);
  if (is_even) return Convert(Div(sum, Like(sum, static_cast<double>(Volume(w.size)))), type);
  // How many elements a window has: of ones, a small array without batch and channels.
  Ints small = dims;
  small[0] = small[1] = 1;
  XlaOp ones = Filled(c.b, work, small, 1);
  FullWindow counted = w;
  if (with_padding) {
    ones = PadWith(ones, Number(c.b, work, 1), w.given);
    for (std::size_t i = 0; i < w.padding.size(); ++i)
      counted.padding[i] = {0, w.padding[i].second - w.given[i].second};
  }
  const XlaOp count = Pooled(ones, Zero(c.b, work), Adder(work), counted);
  return Convert(Div(sum, BroadcastTo(count, DimsOf(sum))), type);
}
Outputs OnAveragePool(Call& c) { return {AveragePoolOf(c, c.In(0))}; }
Outputs OnLpPool(Call& c) {
  const XlaOp x = c.In(0);
  const Ints dims = DimsOf(x);
  const auto p = static_cast<double>(c.Int("p", 2));
  const FullWindow w = Full(ReadWindow(c, dims, KernelShape(c)), dims);
  const XlaOp power = Pow(Abs(x), BroadcastTo(Like(x, p), dims));
  const XlaOp sum = Pooled(power, Like(x, 0), Adder(TypeOf(x)), w);
  return {Pow(sum, BroadcastTo(Like(sum, 1 / p), DimsOf(sum)))};
}
Outputs OnGlobalPool(Call& c) {
  const XlaOp x = c.In(0);
  const Ints axes = Range(2, RankOf(x));
  if (c.node.op_type == "GlobalMaxPool") return {ReduceBy(Fold::kMax, x, axes, true)};
  if (c.node.op_type == "GlobalAveragePool") return {MeanOf(x, axes, true)};
  const auto p = static_cast<double>(c.Int("p", 2));
  const XlaOp sum = ReduceBy(Fold::kSum, Pow(Abs(x), BroadcastTo(Like(x, p), DimsOf(x))), axes, true);
  return {Pow(sum, BroadcastTo(Like(sum, 1 / p), DimsOf(sum)))};
}
Outputs OnMaxUnpool(Call& c) {
  const XlaOp x = c.In(0);
  const Ints dims = DimsOf(x);
  const Window w = ReadWindow(c, dims, KernelShape(c));
  Ints natural = dims;
  for (std::size_t i = 0; i < w.size.size(); ++i)
    natural[i + 2] = (dims[i + 2] - 1) * w.strides[i] + w.size[i] - w.padding[i].first - w.padding[i].second;
  const Ints out = c.Has(2) ? c.KnownInts(2, "the shape of the result") : natural;
  if (out.size() != dims.size()) Reject("The shape of the result has {} dimensions.", out.size());
  // Places count in the array that the pool read. Where another shape is asked for, it lies in its corner.
  const int64_t count = Volume(natural), n = Volume(dims);
  const XlaOp flat = PutAt(Filled(c.b, TypeOf(x), Ints{count}, 0), Reshape(c.In(1), {n}), Reshape(x, {n}),
                           /*unique=*/false);
  const XlaOp placed = Reshape(SliceInDim(flat, 0, count, 1, 0), natural);
  std::vector<std::pair<int64_t, int64_t>> more;
  for (std::size_t i = 0; i < out.size(); ++i) more.emplace_back(0, out[i] - natural[i]);
  return {PadWith(placed, Zero(c.b, TypeOf(x)), more)};
}

}  // namespace krafla::onnx
