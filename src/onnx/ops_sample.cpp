// SPDX-License-Identifier: Apache-2.0
// Images at places between their elements: GridSample, RoiAlign, DeformConv.
#include <algorithm>
#include <cmath>

#include "onnx/call.h"

namespace krafla::onnx {
namespace {

// x[n, c, space...] at integer places [N, P], one array a dimension of space, within it; gives [N, C, P].
XlaOp PixelsAt(XlaOp x, const Outputs& places, XlaOp batch) {
  const Ints d = DimsOf(x), p = DimsOf(batch);
  const Ints one = {p[0], p[1], 1};
  Outputs parts = {Reshape(batch, one)};
  GatherDimensionNumbers numbers;
  numbers.offset_dims = {1};
  numbers.collapsed_slice_dims = {0};
  numbers.start_index_map = {0};
  Ints sizes = {1, d[1]};
  for (std::size_t i = 0; i < places.size(); ++i) {
    parts.push_back(Reshape(places[i], one));
    numbers.collapsed_slice_dims.push_back(static_cast<int64_t>(i) + 2);
    numbers.start_index_map.push_back(static_cast<int64_t>(i) + 2);
    sizes.push_back(1);
  }
  numbers.index_vector_dim = 2;
  return Gather(x, ConcatInDim(x.builder(), parts, 2), numbers, sizes);
}

// What the neighbours of a place weigh along one dimension, by how far behind the first of them it lies.
std::vector<XlaOp> LinearWeights(XlaOp d) { return {Sub(Like(d, 1), d), d}; }
std::vector<XlaOp> CubicWeights(XlaOp d) {  // a = -0.75
  auto near = [&](XlaOp t) { return Add(Mul(Mul(Sub(Mul(t, Like(t, 1.25)), Like(t, 2.25)), t), t), Like(t, 1)); };
  auto far = [&](XlaOp t) {
    return Sub(Mul(Add(Mul(Sub(Mul(t, Like(t, -0.75)), Like(t, -3.75)), t), Like(t, -6)), t), Like(t, -3));
  };
  const XlaOp back = Sub(Like(d, 1), d);
  return {far(Add(d, Like(d, 1))), near(d), near(back), far(Add(back, Like(d, 1)))};
}

struct Sampler {
  XlaOp x, batch;  // batch: s32[N, P]
  std::string mode = "linear", padding = "zeros";
  bool align = false;
  bool largest = false;  // of the weighted neighbours, instead of their sum

  int64_t Size(std::size_t i) const { return DimsOf(x)[i + 2]; }
  XlaOp Pixel(Outputs at) const {  // at whole numbers, in floats [N, P]
    Outputs places;
    XlaOp inside;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const auto size = static_cast<double>(Size(i));
      if (padding == "reflection") at[i] = Reflected(at[i], align ? 0 : -0.5, align ? size - 1 : size - 0.5);
      places.push_back(Convert(ClampTo(at[i], 0, size - 1), S32));
      const XlaOp within = And(Ge(at[i], Like(at[i], 0)), Le(at[i], Like(at[i], size - 1)));
      inside = i == 0 ? within : And(inside, within);
    }
    const XlaOp value = PixelsAt(x, places, batch);
    if (padding != "zeros") return value;
    const Ints wide = DimsOf(value);
    return Select(BroadcastInDim(inside, wide, {0, 2}), value, BroadcastTo(Like(value, 0), wide));
  }
  static XlaOp Reflected(XlaOp at, double low, double high) {
    const double span = high - low;
    if (span <= 0) return BroadcastTo(Like(at, low), DimsOf(at));
    const XlaOp far = Abs(Sub(at, Like(at, low)));
    const XlaOp turns = Floor(Div(far, Like(far, span))), rest = Sub(far, Mul(turns, Like(far, span)));
    const XlaOp odd = Gt(Rem(turns, Like(turns, 2)), Like(turns, 0.5));
    return Add(Select(odd, Sub(Like(rest, span), rest), rest), Like(rest, low));
  }
  static XlaOp Weighted(XlaOp value, XlaOp weight) {
    return Mul(value, Convert(BroadcastInDim(weight, DimsOf(value), {0, 2}), TypeOf(value)));
  }
  XlaOp At(const Outputs& at) const {
    Outputs whole;
    if (mode == "nearest") {
      for (const XlaOp& one : at) whole.push_back(RoundNearestEven(one));
      return Pixel(whole);
    }
    std::vector<std::vector<XlaOp>> weights;
    for (const XlaOp& one : at) {
      whole.push_back(Floor(one));
      const XlaOp rest = Sub(one, whole.back());
      weights.push_back(mode == "linear" ? LinearWeights(rest) : CubicWeights(rest));
    }
    const auto each = static_cast<int64_t>(weights[0].size());
    const Ints neighbours(at.size(), each);
    XlaOp sum;
    Ints k(at.size());
    for (int64_t n = 0; n < Volume(neighbours); ++n) {
      DelinearizeIndex(n, neighbours, k);
      Outputs place;
      XlaOp weight;
      for (std::size_t i = 0; i < at.size(); ++i) {
        const auto shift = static_cast<double>(k[i] - (mode == "linear" ? 0 : 1));
        place.push_back(Add(whole[i], Like(whole[i], shift)));
        const XlaOp own = weights[i][static_cast<std::size_t>(k[i])];
        weight = i == 0 ? own : Mul(weight, own);
      }
      const XlaOp part = Weighted(Pixel(place), weight);
      sum = n == 0 ? part : largest ? Max(sum, part) : Add(sum, part);
    }
    return sum;
  }
};

}  // namespace

Outputs OnGridSample(Call& c) {
  const XlaOp x = c.In(0), grid = c.In(1);
  const Ints d = DimsOf(x), g = DimsOf(grid);
  const std::size_t rank = d.size() - 2;
  if (d.size() < 3 || d.size() > 6 || g.size() != d.size() || g.back() != static_cast<int64_t>(rank) || g[0] != d[0])
    Reject("It samples [N, C, space...] of one to four dimensions at places [N, places.., dimensions].");
  Sampler s;
  s.x = x;
  s.mode = c.Text("mode", c.opset >= 20 ? "linear" : "bilinear");
  if (s.mode == "bilinear") s.mode = "linear";
  if (s.mode == "bicubic") s.mode = "cubic";
  if (s.mode == "cubic" && rank != 2) Refuse("Cubes are for images.");
  s.padding = c.Text("padding_mode", "zeros");
  s.align = c.Int("align_corners", 0) != 0;
  const int64_t points = Volume(std::span(g).subspan(1, rank));
  s.batch = Iota(c.b, MakeShape(S32, Ints{d[0], points}), 0);
  auto place = [&](int64_t which, int64_t size) {
    XlaOp at = Reshape(SliceInDim(grid, which, which + 1, 1, static_cast<int64_t>(rank) + 1), {d[0], points});
    const auto n = static_cast<double>(size);
    XlaOp out = s.align ? Mul(Add(at, Like(at, 1)), Like(at, (n - 1) / 2))
                        : Mul(Sub(Mul(Add(at, Like(at, 1)), Like(at, n)), Like(at, 1)), Like(at, 0.5));
    // The neighbours of a cubic sample are clamped and reflected each, the place itself is not.
    if (s.padding == "border" && s.mode != "cubic") out = ClampTo(out, 0, n - 1);
    if (s.padding == "reflection" && s.mode != "cubic")
      out = s.align ? Sampler::Reflected(out, 0, n - 1) : ClampTo(Sampler::Reflected(out, -0.5, n - 0.5), 0, n - 1);
    return out;
  };
  Outputs at;  // the last dimension is the grid's first number
  for (std::size_t i = 0; i < rank; ++i) at.push_back(place(static_cast<int64_t>(rank - 1 - i), d[i + 2]));
  Ints out = {d[0], d[1]};
  out.insert(out.end(), g.begin() + 1, g.end() - 1);
  return {Reshape(s.At(at), out)};
}
Outputs OnRoiAlign(Call& c) {
  const XlaOp x = c.In(0);
  // As many as there can be, of which there are as many as regions.
  const XlaOp given = c.In(1), rois = WholeOf(given), images = WholeOf(c.In(2));
  if (ShapeOf(x).IsDynamic()) Refuse("The size of {} depends on the data.", ShapeOf(x).ToString(false));
  const Ints d = DimsOf(x), r = DimsOf(rois);
  if (d.size() != 4 || r.size() != 2 || r[1] != 4) Reject("It takes [N, C, H, W] and [R, 4].");
  const int64_t h = c.Int("output_height", 1), w = c.Int("output_width", 1), ratio = c.Int("sampling_ratio", 0),
                count = r[0];
  if (h <= 0 || w <= 0 || h > 4096 || w > 4096 || ratio > 4096) Reject("A result of {} x {}.", h, w);
  if (ratio <= 0)
    Refuse("A sampling_ratio of 0 takes as many samples as the region is large, which depends on the data.");
  const double scale = c.Float("spatial_scale", 1);
  const bool half = c.opset >= 16 && c.Text("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  auto corner = [&](int64_t i) {
    const XlaOp v = Reshape(SliceInDim(rois, i, i + 1, 1, 1), {count});
    return Sub(Mul(v, Like(v, scale)), Like(v, half ? 0.5 : 0));
  };
  auto size = [&](XlaOp from, XlaOp to) { return half ? Sub(to, from) : Max(Sub(to, from), Like(to, 1)); };
  const XlaOp x0 = corner(0), y0 = corner(1), width = size(x0, corner(2)), height = size(y0, corner(3));
  // Samples [R, h * ratio * w * ratio]: places along each axis.
  const Ints grid = {count, h, ratio, w, ratio};
  const int64_t points = h * ratio * w * ratio;
  auto places = [&](XlaOp first, XlaOp extent, int64_t bins, int64_t bin_axis) {
    const Shape f = MakeShape(F32, grid);
    const XlaOp bin = Div(extent, Like(extent, static_cast<double>(bins)));
    const XlaOp at = Add(Iota(c.b, f, bin_axis), Div(Add(Iota(c.b, f, bin_axis + 1), Number(c.b, F32, 0.5)),
                                                     Number(c.b, F32, static_cast<double>(ratio))));
    return Reshape(
        Add(BroadcastInDim(Convert(first, F32), grid, {0}), Mul(BroadcastInDim(Convert(bin, F32), grid, {0}), at)),
        {count, points});
  };
  const XlaOp y = places(y0, height, h, 1), xx = places(x0, width, w, 3);
  Sampler s;
  s.x = x;
  s.padding = "border";
  s.batch = BroadcastInDim(Convert(images, S32), {count, points}, {0});
  const double hh = static_cast<double>(d[2]), ww = static_cast<double>(d[3]);
  const XlaOp inside =
      And(And(Ge(y, Like(y, -1)), Le(y, Like(y, hh))), And(Ge(xx, Like(xx, -1)), Le(xx, Like(xx, ww))));
  // The mode max takes the largest of the four weighted neighbours; this is what ONNX Runtime does.
  s.largest = c.Text("mode", "avg") == "max";
  const XlaOp value = s.At({ClampTo(y, 0, hh - 1), ClampTo(xx, 0, ww - 1)});
  const Ints wide = {count, d[1], points};
  const XlaOp kept = Select(BroadcastInDim(inside, wide, {0, 2}), value, BroadcastTo(Like(value, 0), wide));
  const XlaOp bins = Reshape(kept, {count, d[1], h, ratio, w, ratio});
  const XlaOp out = s.largest ? ReduceBy(Fold::kMax, bins, Ints{3, 5}, false) : MeanOf(bins, Ints{3, 5}, false);
  return {ShapeOf(given).IsDynamicDim(0) ? SetDimensionSize(out, GetDimensionSize(given, 0), 0) : out};
}
// Each element of the window is read where it lies by itself plus its offset, between the elements of the image; a
// product with the weights follows, as a convolution of windows of one element.
Outputs OnDeformConv(Call& c) {
  const XlaOp x = c.In(0), w = c.In(1), offset = c.In(2);
  const Ints d = DimsOf(x), kernel = DimsOf(w), o = DimsOf(offset);
  if (d.size() < 3 || d.size() > 5 || kernel.size() != d.size() || o.size() != d.size())
    Reject("It convolves {} and {} dimensions.", d.size(), kernel.size());
  const std::size_t rank = d.size() - 2;
  const Ints size(kernel.begin() + 2, kernel.end()), out(o.begin() + 2, o.end());
  const Ints strides = c.List("strides").value_or(Ints(rank, 1)),
             dilations = c.List("dilations").value_or(Ints(rank, 1)), pads = c.List("pads").value_or(Ints(2 * rank, 0));
  if (strides.size() != rank || dilations.size() != rank || pads.size() != 2 * rank)
    Reject("Its attributes are of wrong lengths.");
  const int64_t groups = c.Int("group", 1), parts = c.Int("offset_group", 1), elements = Volume(size),
                points = Volume(out), n = d[0] * parts;
  if (groups <= 0 || parts <= 0 || d[1] % parts != 0 || o[0] != d[0] ||
      o[1] != Volume(Ints{parts, elements, static_cast<int64_t>(rank)}))
    Reject("Offsets {} do not fit {} offset groups of windows of {} elements.", ShapeOf(offset).ToString(false), parts,
           elements);
  Ints image = {n, d[1] / parts};
  image.insert(image.end(), d.begin() + 2, d.end());
  Sampler s;
  s.x = Reshape(x, image);
  s.batch = Iota(c.b, MakeShape(S32, Ints{n, elements * points}), 0);
  const XlaOp moved = Reshape(offset, {n, elements, static_cast<int64_t>(rank), points});
  Outputs at;
  Ints k(rank), p(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    std::vector<double> base(static_cast<std::size_t>(Volume(Ints{elements, points})));
    for (int64_t e = 0; e < elements; ++e)
      for (int64_t q = 0; q < points; ++q) {
        DelinearizeIndex(e, size, k);
        DelinearizeIndex(q, out, p);
        base[static_cast<std::size_t>(e * points + q)] = static_cast<double>(p[i]) * static_cast<double>(strides[i]) -
                                                         static_cast<double>(pads[i]) +
                                                         static_cast<double>(k[i]) * static_cast<double>(dilations[i]);
      }
    const auto axis = static_cast<int64_t>(i);
    const XlaOp own = Reshape(SliceInDim(moved, axis, axis + 1, 1, 2), {n, elements, points});
    const XlaOp grid = FromNumbers(c.b, TypeOf(offset), base, Ints{elements, points});
    at.push_back(Reshape(Add(own, BroadcastTo(grid, DimsOf(own))), {n, elements * points}));
  }
  XlaOp read = s.At(at);
  if (c.Has(4)) read = Sampler::Weighted(read, Reshape(c.In(4), {n, elements * points}));
  Ints columns = {d[0], d[1] * elements, points}, flat = {kernel[0], kernel[1] * elements, 1};
  const XlaOp y = ConvGeneralDilated(Reshape(read, columns), Reshape(w, flat), {1}, {{0, 0}}, {1}, {1},
                                     DefaultConvDimensionNumbers(1), groups);
  Ints result = {d[0], kernel[0]};
  result.insert(result.end(), out.begin(), out.end());
  const XlaOp shaped = Reshape(y, result);
  return {c.Has(3) ? Add(shaped, AlongAxis(Convert(c.In(3), TypeOf(y)), result, 1)) : shaped};
}

}  // namespace krafla::onnx
