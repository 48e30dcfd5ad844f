// SPDX-License-Identifier: Apache-2.0
// Detection and geometry: NonMaxSuppression, AffineGrid, Col2Im.
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
