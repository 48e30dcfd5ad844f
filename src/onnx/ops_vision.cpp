// SPDX-License-Identifier: Apache-2.0
// Geometry: AffineGrid, Col2Im.

#include "onnx/call.h"

namespace krafla::onnx {

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
    constexpr int64_t kMostPixels = 1 << 24;
    if (strides[i] <= 0 || dilations[i] <= 0) Reject("A stride of {}.", strides[i]);
    for (const int64_t number : {image[i], strides[i], dilations[i], pads[i], pads[i + n]})
      if (!IsWithin(number, kMostPixels)) Reject("An image, a window or a padding of {} elements.", number);
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
