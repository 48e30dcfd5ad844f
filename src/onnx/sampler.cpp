// SPDX-License-Identifier: Apache-2.0
#include "onnx/sampler.h"

namespace krafla::onnx {
namespace {

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

}  // namespace

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

XlaOp Weighted(XlaOp pixels, XlaOp weight) {
  return Mul(pixels, Convert(BroadcastInDim(weight, DimsOf(pixels), {0, 2}), TypeOf(pixels)));
}

XlaOp Sampler::Reflected(XlaOp at, double low, double high) {
  const double span = high - low;
  if (span <= 0) return BroadcastTo(Like(at, low), DimsOf(at));
  const XlaOp far = Abs(Sub(at, Like(at, low)));
  const XlaOp turns = Floor(Div(far, Like(far, span))), rest = Sub(far, Mul(turns, Like(far, span)));
  const XlaOp odd = Gt(Rem(turns, Like(turns, 2)), Like(turns, 0.5));
  return Add(Select(odd, Sub(Like(rest, span), rest), rest), Like(rest, low));
}

XlaOp Sampler::Pixel(Outputs at) const {
  const Ints d = DimsOf(x);
  Outputs places;
  XlaOp inside;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const auto size = static_cast<double>(d[i + 2]);
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

XlaOp Sampler::At(const Outputs& at) const {
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

}  // namespace krafla::onnx
