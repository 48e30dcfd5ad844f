// SPDX-License-Identifier: Apache-2.0
// Images at places between their elements: GridSample, DeformConv.
#include <algorithm>
#include <cmath>

#include "onnx/sampler.h"

namespace krafla::onnx {

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
                points = Volume(out);
  if (groups <= 0 || parts <= 0 || d[1] % parts != 0 || o[0] != d[0] ||
      o[1] != Volume(Ints{parts, elements, static_cast<int64_t>(rank)}))
    Reject("Offsets {} do not fit {} offset groups of windows of {} elements.", ShapeOf(offset).ToString(false), parts,
           elements);
  const int64_t n = Volume(Ints{d[0], parts});
  Ints image = {n, d[1] / parts};
  image.insert(image.end(), d.begin() + 2, d.end());
  Sampler s;
  s.x = Reshape(x, image);
  s.batch = Iota(c.b, MakeShape(S32, Ints{n, elements * points}), 0);
  const XlaOp moved = Reshape(offset, {n, elements, static_cast<int64_t>(rank), points});
  // Of an image that is declared too large the tables of places would be, too.
  const int64_t places = Volume(Ints{elements, points});
  if (places > (1 << 26)) Refuse("An image of {} with windows of {} elements.", ShapeOf(x).ToString(false), elements);
  Outputs at;
  Ints k(rank), p(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    std::vector<double> base(static_cast<std::size_t>(places));
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
  if (c.Has(4)) read = Weighted(read, Reshape(c.In(4), {n, elements * points}));
  Ints columns = {d[0], d[1] * elements, points}, flat = {kernel[0], kernel[1] * elements, 1};
  const XlaOp y = ConvGeneralDilated(Reshape(read, columns), Reshape(w, flat), {1}, {{0, 0}}, {1}, {1},
                                     DefaultConvDimensionNumbers(1), groups);
  Ints result = {d[0], kernel[0]};
  result.insert(result.end(), out.begin(), out.end());
  const XlaOp shaped = Reshape(y, result);
  return {c.Has(3) ? Add(shaped, AlongAxis(Convert(c.In(3), TypeOf(y)), result, 1)) : shaped};
}

}  // namespace krafla::onnx
