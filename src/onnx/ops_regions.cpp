// SPDX-License-Identifier: Apache-2.0
// Regions of images, each in as many bins as the result has elements: RoiAlign, MaxRoiPool.

#include "onnx/sampler.h"

namespace krafla::onnx {
namespace {

// Regions along one axis of the images, in elements, f32[R], and the bins that each is cut into.
struct Cut {
  XlaOp first, extent;
  int64_t bins;
};

// The samples [R, C, P] at places y and x [R, P]. What lies outside of the image by more than an element is zero.
XlaOp SamplesAt(XlaOp image, XlaOp images, XlaOp y, XlaOp x, bool largest) {
  const Ints d = DimsOf(image), places = DimsOf(y);
  const auto height = static_cast<double>(d[2]), width = static_cast<double>(d[3]);
  Sampler s;
  s.x = image;
  s.padding = "border";
  s.batch = BroadcastInDim(images, places, {0});
  // The mode max takes the largest of the four weighted neighbours; this is what ONNX Runtime does.
  s.largest = largest;
  const XlaOp inside =
      And(And(Ge(y, Like(y, -1)), Le(y, Like(y, height))), And(Ge(x, Like(x, -1)), Le(x, Like(x, width))));
  const XlaOp value = s.At({ClampTo(y, 0, height - 1), ClampTo(x, 0, width - 1)});
  const Ints wide = DimsOf(value);
  return Select(BroadcastInDim(inside, wide, {0, 2}), value, BroadcastTo(Like(value, 0), wide));
}

// As many samples in each bin as the node says, all of them at once: [R, C, rows, columns].
XlaOp AlignedBy(int64_t ratio, XlaOp image, XlaOp images, const Cut& rows, const Cut& columns, bool largest) {
  XlaBuilder* b = image.builder();
  const int64_t count = DimsOf(images)[0];
  const Ints grid = {count, rows.bins, ratio, columns.bins, ratio}, flat = {count, Volume(std::span(grid).subspan(1))};
  auto places = [&](const Cut& axis, int64_t bin_axis) {
    const Shape f = MakeShape(F32, grid);
    const XlaOp bin = Div(axis.extent, Like(axis.extent, static_cast<double>(axis.bins)));
    const XlaOp at = Add(Iota(b, f, bin_axis), Div(Add(Iota(b, f, bin_axis + 1), Number(b, F32, 0.5)),
                                                   Number(b, F32, static_cast<double>(ratio))));
    return Reshape(Add(BroadcastInDim(axis.first, grid, {0}), Mul(BroadcastInDim(bin, grid, {0}), at)), flat);
  };
  const XlaOp value = SamplesAt(image, images, places(rows, 1), places(columns, 3), largest);
  const XlaOp bins = Reshape(value, {count, DimsOf(image)[1], rows.bins, ratio, columns.bins, ratio});
  return largest ? ReduceBy(Fold::kMax, bins, Ints{3, 5}, false) : MeanOf(bins, Ints{3, 5}, false);
}

// Places 0, 1, .. of a rectangle in each bin, row by row, s32[R, P]: a turn of a loop has one of every bin, as long as
// any bin has another. `fold` takes what is known so far, the row and the column in the bin, and where there is such a
// place.
using FoldPlace = std::function<XlaOp(const Outputs& given, XlaOp so_far, XlaOp row, XlaOp column, XlaOp is_there)>;
XlaOp FoldRectangles(XlaOp first, XlaOp height, XlaOp width, const Outputs& given, const FoldPlace& fold) {
  const Ints places = DimsOf(height);
  Outputs init = {Zero(first.builder(), S32), first, height, width};
  init.push_back(ReduceBy(Fold::kMax, Mul(height, width), Range(0, static_cast<int64_t>(places.size())), false));
  init.insert(init.end(), given.begin(), given.end());
  const auto turn = [&](const Outputs& in) {
    const XlaOp t = BroadcastTo(in[0], places), columns = Max(in[3], Like(in[3], 1));
    Outputs out = in;
    out[0] = Add(in[0], Like(in[0], 1));
    out[1] = fold(Outputs(in.begin() + 5, in.end()), in[1], Div(t, columns), Rem(t, columns), Lt(t, Mul(in[2], in[3])));
    return out;
  };
  return LoopOver(init, [](const Outputs& in) { return Lt(in[0], in[4]); }, turn)[1];
}

// The sides of a rectangle of samples or elements, of which there are at most so many that their number has 32 bits.
XlaOp Side(XlaOp number) { return Convert(ClampTo(number, 0, 32767), S32); }

// As many samples in each bin as it has elements, which depends on the region.
XlaOp AlignedByExtent(XlaOp image, XlaOp images, const Cut& rows, const Cut& columns, bool largest) {
  XlaBuilder* b = image.builder();
  const int64_t count = DimsOf(images)[0], channels = DimsOf(image)[1];
  const Ints places = {count, rows.bins * columns.bins}, grid = {count, rows.bins, columns.bins};
  const ElementType type = TypeOf(image), work = IsSmallFloat(type) && !largest ? F32 : type;
  const auto bin = [](const Cut& axis) { return Div(axis.extent, Like(axis.extent, static_cast<double>(axis.bins))); };
  const auto samples = [&](const Cut& axis) { return BroadcastInDim(Side(Ceil(bin(axis))), places, {0}); };
  // Where a bin begins, and how far the samples of one lie from each other.
  const auto starts = [&](const Cut& axis, int64_t dim) {
    const XlaOp k = Iota(b, MakeShape(F32, grid), dim);
    return Reshape(Add(BroadcastInDim(axis.first, grid, {0}), Mul(BroadcastInDim(bin(axis), grid, {0}), k)), places);
  };
  const auto step = [&](const Cut& axis, XlaOp n) {
    return Div(BroadcastInDim(bin(axis), places, {0}), Convert(n, F32));
  };
  const XlaOp height = samples(rows), width = samples(columns);
  const Outputs given = {image, images, starts(rows, 1), step(rows, height), starts(columns, 2), step(columns, width)};
  const Ints wide = {count, channels, places[1]};
  const XlaOp first = largest ? BroadcastTo(Lowest(b, work), wide) : Filled(b, work, wide, 0);
  const auto fold = [&](const Outputs& in, XlaOp so_far, XlaOp row, XlaOp column, XlaOp is_there) {
    const auto at = [](XlaOp start, XlaOp each, XlaOp k) {
      return Add(start, Mul(each, Add(Convert(k, F32), Like(each, 0.5))));
    };
    const XlaOp value =
        Convert(SamplesAt(in[0], in[1], at(in[2], in[3], row), at(in[4], in[5], column), largest), work);
    return Select(BroadcastInDim(is_there, wide, {0, 2}), largest ? Max(so_far, value) : Add(so_far, value), so_far);
  };
  XlaOp out = FoldRectangles(first, height, width, given, fold);
  const XlaOp number = Mul(height, width);
  if (largest)
    out = Select(BroadcastInDim(Gt(number, Like(number, 0)), wide, {0, 2}), out, BroadcastTo(Like(out, 0), wide));
  else out = Div(out, BroadcastInDim(Convert(Max(number, Like(number, 1)), work), wide, {0, 2}));
  return Reshape(Convert(out, type), {count, channels, rows.bins, columns.bins});
}

// With as many regions as the input has, of as many as there can be.
XlaOp AsManyAs(XlaOp given, XlaOp out) {
  return ShapeOf(given).IsDynamicDim(0) ? SetDimensionSize(out, GetDimensionSize(given, 0), 0) : out;
}

}  // namespace

Outputs OnRoiAlign(Call& c) {
  const XlaOp x = c.In(0), given = c.In(1), rois = WholeOf(given), images = Convert(WholeOf(c.In(2)), S32);
  if (ShapeOf(x).IsDynamic()) Refuse("The size of {} depends on the data.", ShapeOf(x).ToString(false));
  const Ints d = DimsOf(x), r = DimsOf(rois);
  if (d.size() != 4 || r.size() != 2 || r[1] != 4 || DimsOf(images) != Ints{r[0]})
    Reject("It takes [N, C, H, W], [R, 4] and [R].");
  const int64_t h = c.Int("output_height", 1), w = c.Int("output_width", 1), ratio = c.Int("sampling_ratio", 0);
  if (h <= 0 || w <= 0 || h > 4096 || w > 4096 || ratio > 4096) Reject("A result of {} x {}.", h, w);
  const double scale = c.Float("spatial_scale", 1);
  const bool half = c.opset >= 16 && c.Text("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  auto corner = [&](int64_t i) {
    const XlaOp v = Reshape(SliceInDim(rois, i, i + 1, 1, 1), {r[0]});
    return Sub(Mul(v, Like(v, scale)), Like(v, half ? 0.5 : 0));
  };
  auto axis = [&](int64_t first, int64_t last, int64_t bins) {
    const XlaOp from = corner(first), size = Sub(corner(last), from);
    return Cut{Convert(from, F32), Convert(half ? size : Max(size, Like(size, 1)), F32), bins};
  };
  const Cut rows = axis(1, 3, h), columns = axis(0, 2, w);
  const bool largest = c.Text("mode", "avg") == "max";
  return {AsManyAs(given, ratio > 0 ? AlignedBy(ratio, x, images, rows, columns, largest)
                                    : AlignedByExtent(x, images, rows, columns, largest))};
}

Outputs OnMaxRoiPool(Call& c) {
  const XlaOp x = c.In(0), given = c.In(1), rois = WholeOf(given);
  const Ints d = DimsOf(x), r = DimsOf(rois), bins = c.List("pooled_shape").value_or(Ints());
  if (ShapeOf(x).IsDynamic()) Refuse("The size of {} depends on the data.", ShapeOf(x).ToString(false));
  if (d.size() != 4 || r.size() != 2 || r[1] != 5) Reject("It takes [N, C, H, W] and [R, 5].");
  if (bins.size() != 2 || std::ranges::any_of(bins, [](int64_t n) { return n <= 0 || n > 4096; }))
    Reject("It needs pooled_shape, of two sizes up to 4096.");
  const double scale = c.Float("spatial_scale", 1);
  const Ints grid = {r[0], bins[0], bins[1]}, places = {r[0], bins[0] * bins[1]}, wide = {r[0], d[1], places[1]};
  auto column = [&](int64_t i) { return Convert(Reshape(SliceInDim(rois, i, i + 1, 1, 1), {r[0]}), F32); };
  auto corner = [&](int64_t i) { return Round(Mul(column(i), Like(column(i), scale))); };
  // The first element of each bin and the one behind its last, within the image, [R, P].
  auto bounds = [&](int64_t low, int64_t high, int64_t dim) {
    const auto size = static_cast<double>(d[static_cast<std::size_t>(dim) + 1]);
    const XlaOp first = corner(low), extent = Add(Sub(corner(high), first), Like(first, 1));
    const XlaOp bin =
        Div(Max(extent, Like(extent, 1)), Like(extent, static_cast<double>(grid[static_cast<std::size_t>(dim)])));
    const XlaOp k = Iota(c.b, MakeShape(F32, grid), dim), each = BroadcastInDim(bin, grid, {0}),
                start = BroadcastInDim(first, grid, {0});
    auto bound = [&](XlaOp at) { return Reshape(ClampTo(Add(at, start), 0, size), places); };
    return std::pair(bound(Floor(Mul(k, each))), bound(Ceil(Mul(Add(k, Like(k, 1)), each))));
  };
  const auto [top, bottom] = bounds(2, 4, 1);
  const auto [left, right] = bounds(1, 3, 2);
  const XlaOp height = Side(Sub(bottom, top)), width = Side(Sub(right, left)), number = Mul(height, width);
  const XlaOp images = BroadcastInDim(Convert(column(0), S32), places, {0});
  const auto fold = [&](const Outputs& in, XlaOp so_far, XlaOp row, XlaOp at, XlaOp is_there) {
    const XlaOp value = PixelsAt(in[0], {Add(in[2], row), Add(in[3], at)}, in[1]);
    return Select(BroadcastInDim(is_there, wide, {0, 2}), Max(so_far, value), so_far);
  };
  const XlaOp most = FoldRectangles(BroadcastTo(Lowest(c.b, TypeOf(x)), wide), height, width,
                                    {x, images, Convert(top, S32), Convert(left, S32)}, fold);
  const XlaOp out =
      Select(BroadcastInDim(Gt(number, Like(number, 0)), wide, {0, 2}), most, BroadcastTo(Like(most, 0), wide));
  return {AsManyAs(given, Reshape(out, {r[0], d[1], bins[0], bins[1]}))};
}

}  // namespace krafla::onnx
