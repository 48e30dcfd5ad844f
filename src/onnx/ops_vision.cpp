// SPDX-License-Identifier: Apache-2.0
// Detection and geometry: NonMaxSuppression, RoiAlign, GridSample, AffineGrid, Col2Im.
#include <algorithm>
#include <cmath>

#include "onnx/call.h"

namespace krafla::onnx {
namespace {

struct Box {
  double y0, x0, y1, x1;
};
Box BoxAt(const std::vector<double>& boxes, std::size_t at, bool by_centre) {
  const double* p = boxes.data() + at;
  if (by_centre) return {p[1] - p[3] / 2, p[0] - p[2] / 2, p[1] + p[3] / 2, p[0] + p[2] / 2};
  return {std::min(p[0], p[2]), std::min(p[1], p[3]), std::max(p[0], p[2]), std::max(p[1], p[3])};
}
double Overlap(const Box& a, const Box& b) {
  const double h = std::min(a.y1, b.y1) - std::max(a.y0, b.y0), w = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  if (h <= 0 || w <= 0) return 0;
  const double common = h * w, both = (a.y1 - a.y0) * (a.x1 - a.x0) + (b.y1 - b.y0) * (b.x1 - b.x0) - common;
  return both > 0 ? common / both : 0;
}
double OneNumber(Call& c, std::size_t input, double otherwise, const char* what) {
  if (!c.Has(input)) return otherwise;
  const std::vector<double> list = c.KnownNumbers(input, what);
  return list.empty() ? otherwise : list[0];
}

}  // namespace

// How many boxes are kept depends on the data, so the data have to be known.
Outputs OnNonMaxSuppression(Call& c) {
  const std::vector<double> boxes =
      c.KnownNumbers(0, "the boxes, of which the number kept is not known before the run,");
  const std::vector<double> scores = c.KnownNumbers(1, "the scores");
  const Ints db = DimsOf(c.ShapeOf(0)), ds = DimsOf(c.ShapeOf(1));
  if (db.size() != 3 || ds.size() != 3 || db[2] != 4 || db[0] != ds[0] || db[1] != ds[2])
    Reject("Boxes must be [N, B, 4] and scores [N, C, B].");
  const double most = OneNumber(c, 2, 0, "the number of boxes"), overlap = OneNumber(c, 3, 0, "the overlap"),
               least = OneNumber(c, 4, -INFINITY, "the threshold");
  const bool by_centre = c.Int("center_point_box", 0) != 0;
  Ints out;
  for (int64_t n = 0; n < ds[0]; ++n)
    for (int64_t k = 0; k < ds[1]; ++k) {
      auto score = [&](int64_t b) { return scores[static_cast<std::size_t>((n * ds[1] + k) * ds[2] + b)]; };
      Ints order;
      for (int64_t b = 0; b < ds[2]; ++b)
        if (score(b) > least) order.push_back(b);
      std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return score(a) > score(b); });
      std::vector<Box> kept;
      for (int64_t b : order) {
        if (static_cast<double>(kept.size()) >= most) break;
        const Box box = BoxAt(boxes, static_cast<std::size_t>((n * db[1] + b) * 4), by_centre);
        if (std::ranges::any_of(kept, [&](const Box& other) { return Overlap(box, other) > overlap; })) continue;
        kept.push_back(box);
        out.insert(out.end(), {n, k, b});
      }
    }
  return {ConstantLiteral(c.b, LiteralUtil::CreateFromArray<int64_t>(out, {static_cast<int64_t>(out.size()) / 3, 3}))};
}

namespace {
// x[n, c, y, x] at integer places [N, P], of which those outside are clamped; gives [N, C, P].
XlaOp PixelsAt(XlaOp x, XlaOp y, XlaOp column, XlaOp batch) {
  const Ints d = DimsOf(x), p = DimsOf(y);
  const Ints one = {p[0], p[1], 1};
  const XlaOp points = ConcatInDim(x.builder(), {Reshape(batch, one), Reshape(y, one), Reshape(column, one)}, 2);
  GatherDimensionNumbers numbers;
  numbers.offset_dims = {1};
  numbers.collapsed_slice_dims = {0, 2, 3};
  numbers.start_index_map = {0, 2, 3};
  numbers.index_vector_dim = 2;
  return Gather(x, points, numbers, {1, d[1], 1, 1});
}
struct Sampler {
  XlaOp x, batch;  // batch: s32[N, P]
  std::string mode = "linear", padding = "zeros";
  bool align = false;
  bool largest = false;  // of the weighted neighbours, instead of their sum

  XlaOp Pixel(XlaOp row, XlaOp column) const {  // at whole numbers, in f32 [N, P]
    const Ints d = DimsOf(x), p = DimsOf(row);
    const double h = static_cast<double>(d[2]), w = static_cast<double>(d[3]);
    auto folded = [&](XlaOp at, double size) {
      if (padding != "reflection") return at;
      return Reflected(at, align ? 0 : -0.5, align ? size - 1 : size - 0.5);
    };
    row = folded(row, h);
    column = folded(column, w);
    const XlaOp y = Convert(ClampTo(row, 0, h - 1), S32), xx = Convert(ClampTo(column, 0, w - 1), S32);
    const XlaOp value = PixelsAt(x, y, xx, batch);
    if (padding != "zeros") return value;
    const XlaOp inside = And(And(Ge(row, Like(row, 0)), Le(row, Like(row, h - 1))),
                             And(Ge(column, Like(column, 0)), Le(column, Like(column, w - 1))));
    const Ints wide = {p[0], d[1], p[1]};
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
  XlaOp Weighted(XlaOp value, XlaOp weight) const {
    return Mul(value, Convert(BroadcastInDim(weight, DimsOf(value), {0, 2}), TypeOf(value)));
  }
  XlaOp At(XlaOp row, XlaOp column) const {
    if (mode == "nearest") return Pixel(RoundNearestEven(row), RoundNearestEven(column));
    const XlaOp top = Floor(row), left = Floor(column), dy = Sub(row, top), dx = Sub(column, left);
    auto weights = [&](XlaOp d) -> std::vector<XlaOp> {
      if (mode == "linear") return {Sub(Like(d, 1), d), d};
      auto near = [&](XlaOp t) {  // a = -0.75
        return Add(Mul(Mul(Sub(Mul(t, Like(t, 1.25)), Like(t, 2.25)), t), t), Like(t, 1));
      };
      auto far = [&](XlaOp t) {
        return Sub(Mul(Add(Mul(Sub(Mul(t, Like(t, -0.75)), Like(t, -3.75)), t), Like(t, -6)), t), Like(t, -3));
      };
      const XlaOp back = Sub(Like(d, 1), d);
      return {far(Add(d, Like(d, 1))), near(d), near(back), far(Add(back, Like(d, 1)))};
    };
    const std::vector<XlaOp> wy = weights(dy), wx = weights(dx);
    const double first = mode == "linear" ? 0 : -1;
    XlaOp sum;
    for (std::size_t i = 0; i < wy.size(); ++i)
      for (std::size_t j = 0; j < wx.size(); ++j) {
        const XlaOp value = Pixel(Add(top, Like(top, first + static_cast<double>(i))),
                                  Add(left, Like(left, first + static_cast<double>(j))));
        const XlaOp part = Weighted(value, Mul(wy[i], wx[j]));
        sum = i + j == 0 ? part : largest ? Max(sum, part) : Add(sum, part);
      }
    return sum;
  }
};
}  // namespace

Outputs OnGridSample(Call& c) {
  const XlaOp x = c.In(0), grid = c.In(1);
  const Ints d = DimsOf(x), g = DimsOf(grid);
  if (d.size() != 4 || g.size() != 4 || g[3] != 2 || g[0] != d[0])
    Refuse("GridSample is supported for images [N, C, H, W].");
  Sampler s;
  s.x = x;
  s.mode = c.Text("mode", c.opset >= 20 ? "linear" : "bilinear");
  if (s.mode == "bilinear") s.mode = "linear";
  if (s.mode == "bicubic") s.mode = "cubic";
  s.padding = c.Text("padding_mode", "zeros");
  s.align = c.Int("align_corners", 0) != 0;
  const int64_t points = g[1] * g[2];
  s.batch = Iota(c.b, MakeShape(S32, Ints{d[0], points}), 0);
  auto place = [&](int64_t which, int64_t size) {
    XlaOp at = Reshape(SliceInDim(grid, which, which + 1, 1, 3), {d[0], points});
    const auto n = static_cast<double>(size);
    XlaOp out = s.align ? Mul(Add(at, Like(at, 1)), Like(at, (n - 1) / 2))
                        : Mul(Sub(Mul(Add(at, Like(at, 1)), Like(at, n)), Like(at, 1)), Like(at, 0.5));
    // The sixteen neighbours of a cubic sample are clamped and reflected each, the place itself is not.
    if (s.padding == "border" && s.mode != "cubic") out = ClampTo(out, 0, n - 1);
    if (s.padding == "reflection" && s.mode != "cubic")
      out = s.align ? Sampler::Reflected(out, 0, n - 1) : ClampTo(Sampler::Reflected(out, -0.5, n - 0.5), 0, n - 1);
    return out;
  };
  return {Reshape(s.At(place(1, d[2]), place(0, d[3])), {d[0], d[1], g[1], g[2]})};
}
Outputs OnRoiAlign(Call& c) {
  const XlaOp x = c.In(0), rois = c.In(1);
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
  s.batch = BroadcastInDim(Convert(c.In(2), S32), {count, points}, {0});
  const double hh = static_cast<double>(d[2]), ww = static_cast<double>(d[3]);
  const XlaOp inside =
      And(And(Ge(y, Like(y, -1)), Le(y, Like(y, hh))), And(Ge(xx, Like(xx, -1)), Le(xx, Like(xx, ww))));
  // The mode max takes the largest of the four weighted neighbours; this is what ONNX Runtime does.
  s.largest = c.Text("mode", "avg") == "max";
  const XlaOp value = s.At(ClampTo(y, 0, hh - 1), ClampTo(xx, 0, ww - 1));
  const Ints wide = {count, d[1], points};
  const XlaOp kept = Select(BroadcastInDim(inside, wide, {0, 2}), value, BroadcastTo(Like(value, 0), wide));
  const XlaOp bins = Reshape(kept, {count, d[1], h, ratio, w, ratio});
  return {s.largest ? ReduceBy(Fold::kMax, bins, Ints{3, 5}, false) : MeanOf(bins, Ints{3, 5}, false)};
}
Outputs OnAffineGrid(Call& c) {
  const XlaOp theta = c.In(0);
  const Ints size = c.KnownInts(1, "the size");
  if (size.size() < 4 || size.size() > 5) Reject("A size of {} numbers.", size.size());
  const auto n = static_cast<int64_t>(size.size()) - 2;
  const bool align = c.Int("align_corners", 0) != 0;
  Ints space(size.begin() + 2, size.end()), one = space;
  one.push_back(1);
  Outputs parts;
  for (int64_t d = n; d-- > 0;) {  // x first
    const XlaOp at = Iota(c.b, MakeShape(TypeOf(theta), space), d);
    const auto m = static_cast<double>(space[static_cast<std::size_t>(d)]);
    const XlaOp value = align ? Sub(Mul(at, Like(at, m > 1 ? 2 / (m - 1) : 0)), Like(at, 1))
                              : Sub(Mul(Add(at, Like(at, 0.5)), Like(at, 2 / m)), Like(at, 1));
    parts.push_back(Reshape(value, one));
  }
  parts.push_back(Filled(c.b, TypeOf(theta), one, 1));
  const XlaOp base = Reshape(ConcatInDim(c.b, parts, n), {Volume(space), n + 1});
  Ints out = {size[0]};
  out.insert(out.end(), space.begin(), space.end());
  out.push_back(n);
  return {Reshape(MatMulOf(BroadcastTo(base, Ints{size[0], Volume(space), n + 1}), Transpose(theta, {0, 2, 1})), out)};
}
Outputs OnCol2Im(Call& c) {
  const XlaOp x = c.In(0);
  const Ints image = c.KnownInts(1, "the shape of the image"), block = c.KnownInts(2, "the shape of the block"),
             d = DimsOf(x);
  const std::size_t n = image.size();
  const Ints strides = c.List("strides").value_or(Ints(n, 1)), dilations = c.List("dilations").value_or(Ints(n, 1)),
             pads = c.List("pads").value_or(Ints(2 * n, 0));
  if (d.size() != 3 || block.size() != n || strides.size() != n || dilations.size() != n || pads.size() != 2 * n)
    Reject("Its operands do not fit.");
  const int64_t each = Volume(block);
  if (each <= 0 || each > 4096 || d[1] % each != 0) Reject("A block of {} elements.", each);
  Ints columns, padded, split = {d[0], d[1] / each};
  for (std::size_t i = 0; i < n; ++i) {
    if (strides[i] <= 0 || dilations[i] <= 0) Reject("A stride of {}.", strides[i]);
    padded.push_back(image[i] + pads[i] + pads[i + n]);
    columns.push_back((padded[i] - (dilations[i] * (block[i] - 1) + 1)) / strides[i] + 1);
  }
  split.push_back(each);
  split.insert(split.end(), columns.begin(), columns.end());
  const XlaOp all = Reshape(x, split);
  XlaOp sum;
  Ints at(n);
  for (int64_t k = 0; k < each; ++k) {  // one plane an element of the block, spread and shifted
    DelinearizeIndex(k, block, at);
    PaddingConfig config = MakeNoPaddingConfig(static_cast<int64_t>(n) + 2);
    for (std::size_t i = 0; i < n; ++i) {
      const int64_t low = at[i] * dilations[i], used = (columns[i] - 1) * strides[i] + 1;
      config.dimensions[i + 2] = {low - pads[i], padded[i] - low - used - pads[i + n], strides[i] - 1};
    }
    Ints one = split;
    one.erase(one.begin() + 2);
    const XlaOp part = Pad(Reshape(SliceInDim(all, k, k + 1, 1, 2), one), Like(x, 0), config);
    sum = k == 0 ? part : Add(sum, part);
  }
  return {sum};
}

}  // namespace krafla::onnx
