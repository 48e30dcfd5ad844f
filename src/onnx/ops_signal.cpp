// SPDX-License-Identifier: Apache-2.0
// Speech and losses: DFT, STFT, windows, MelWeightMatrix, NegativeLogLikelihoodLoss.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "onnx/call.h"

namespace krafla::onnx {
namespace {

// Products with cosines and sines: for the short frames of speech, whose lengths are no powers of two, one dot.
struct Turned {
  XlaOp real, imaginary;
};
Turned Fourier(XlaOp real, XlaOp imaginary, int64_t n, int64_t bins) {  // along the last dimension
  XlaBuilder* b = real.builder();
  if (n <= 0 || n > (1 << 13)) Refuse("A Fourier transform of {} elements.", n);
  std::vector<double> cosine(static_cast<std::size_t>(n * bins)), sine(cosine.size());
  for (int64_t t = 0; t < n; ++t)
    for (int64_t k = 0; k < bins; ++k) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(t * k % n) / static_cast<double>(n);
      const auto at = static_cast<std::size_t>(t * bins + k);
      cosine[at] = std::cos(angle);
      sine[at] = -std::sin(angle);
    }
  const ElementType type = TypeOf(real);
  const XlaOp c = FromNumbers(b, type, cosine, Ints{n, bins}), s = FromNumbers(b, type, sine, Ints{n, bins});
  Turned out = {MatMulOf(real, c), MatMulOf(real, s)};
  if (imaginary.IsUninitialized()) return out;
  return {Sub(out.real, MatMulOf(imaginary, s)), Add(out.imaginary, MatMulOf(imaginary, c))};
}
XlaOp Joined(Turned t) {
  Ints one = DimsOf(t.real);
  const auto rank = static_cast<int64_t>(one.size());
  one.push_back(1);
  return ConcatInDim(t.real.builder(), {Reshape(t.real, one), Reshape(t.imaginary, one)}, rank);
}
// The last dimension cut or filled with zeros.
XlaOp FitLast(XlaOp x, int64_t n) {
  const Ints d = DimsOf(x);
  std::vector<std::pair<int64_t, int64_t>> padding(d.size());
  padding.back() = {0, n - d.back()};
  return PadWith(x, Like(x, 0), padding);
}

}  // namespace

Outputs OnDft(Call& c) {
  const XlaOp x = c.In(0);
  const Ints d = DimsOf(x);
  const auto rank = static_cast<int64_t>(d.size());
  if (rank < 2 || (d.back() != 1 && d.back() != 2)) Reject("Its operand must be [..., 1] or [..., 2].");
  const int64_t given = c.opset >= 20 ? (c.Has(2) ? c.KnownInts(2, "the axis").at(0) : -2) : c.Int("axis", 1);
  const int64_t axis = Axis(given, rank);
  const bool inverse = c.Int("inverse", 0) != 0, half = c.Int("onesided", 0) != 0;
  if (axis == rank - 1) Reject("The axis is that of real and imaginary parts.");
  const int64_t along = d[static_cast<std::size_t>(axis)];
  const int64_t n = c.Has(1) ? c.KnownInts(1, "the length").at(0) : inverse && half ? 2 * (along - 1) : along;
  if (n <= 0) Reject("A length of {}.", n);
  const int64_t read = inverse && half ? n / 2 + 1 : n;
  auto part = [&](int64_t i) {
    Ints flat(d.begin(), d.end() - 1);
    return FitLast(MoveAxis(Reshape(SliceInDim(x, i, i + 1, 1, rank - 1), flat), axis, rank - 2), read);
  };
  const XlaOp real = part(0);
  const ElementType type = TypeOf(real), work = type == F64 ? F64 : F32;
  auto ended = [&](XlaOp y) { return Convert(MoveAxis(y, rank - 2, axis), type); };
  if (half && !inverse && d.back() == 1) {
    const XlaOp y = Fft(Convert(real, work), FftType::kRfft, {n});
    return {Joined({ended(Real(y)), ended(Imag(y))})};
  }
  const XlaOp imaginary = d.back() == 2 ? part(1) : BroadcastTo(Like(real, 0), DimsOf(real));
  const XlaOp values = Complex(Convert(real, work), Convert(imaginary, work));
  if (half && inverse) {
    const XlaOp y = ended(Fft(values, FftType::kIrfft, {n}));
    Ints one = DimsOf(y);
    one.push_back(1);
    return {Reshape(y, one)};
  }
  XlaOp y = Fft(values, inverse ? FftType::kIfft : FftType::kFft, {n});
  if (half) y = SliceInDim(y, 0, n / 2 + 1, 1, rank - 2);
  return {Joined({ended(Real(y)), ended(Imag(y))})};
}
Outputs OnStft(Call& c) {
  XlaOp x = c.In(0);
  const Ints d = DimsOf(x);
  const int64_t step = c.KnownInts(1, "the step").at(0);
  int64_t n = c.Has(3) ? c.KnownInts(3, "the length").at(0) : c.Has(2) ? c.ShapeOf(2).dim(0) : 0;
  if (d.size() < 2 || step <= 0 || n <= 0 || n > d[1]) Reject("Frames of {} elements, {} apart.", n, step);
  const int64_t frames = (d[1] - n) / step + 1, bins = c.Int("onesided", 1) != 0 ? n / 2 + 1 : n;
  const Shape each = MakeShape(S64, Ints{frames, n});
  const XlaOp first = Iota(c.b, each, 0);
  const XlaOp places = Add(Mul(first, Like(first, static_cast<double>(std::min(step, d[1])))), Iota(c.b, each, 1));
  auto part = [&](int64_t i) {
    XlaOp signal = d.size() == 3 ? Reshape(SliceInDim(x, i, i + 1, 1, 2), {d[0], d[1]}) : x;
    signal = Reshape(TakeAlong(signal, places, 1), {d[0], frames, n});
    return c.Has(2) ? Mul(signal, BroadcastTo(c.In(2), DimsOf(signal))) : signal;
  };
  return {Joined(Fourier(part(0), d.size() == 3 && d[2] == 2 ? part(1) : XlaOp(), n, bins))};
}
Outputs OnWindow(Call& c) {
  const int64_t n = c.KnownInts(0, "the size").at(0);
  if (n <= 0 || n > (1 << 24)) Reject("A window of {} elements.", n);
  const double period = c.Int("periodic", 1) != 0 ? static_cast<double>(n) : static_cast<double>(n - 1);
  const std::string& op = c.node.op_type;
  const double a0 = op == "HannWindow" ? 0.5 : op == "HammingWindow" ? 25.0 / 46 : 0.42;
  const double a1 = op == "BlackmanWindow" ? 0.5 : 1 - a0, a2 = op == "BlackmanWindow" ? 0.08 : 0;
  std::vector<double> out;
  for (int64_t i = 0; i < n; ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / period;
    out.push_back(a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle));
  }
  return {FromNumbers(c.b, ToElementType(c.Int("output_datatype", 1)), out, Ints{n})};
}
Outputs OnMelWeightMatrix(Call& c) {
  auto one = [&](std::size_t i) { return c.KnownNumbers(i, "its size").at(0); };
  // A number of another size, or none, has no integer.
  const auto size = [&](std::size_t i, double most) {
    const double number = one(i);
    if (!(number >= 1 && number <= most)) Reject("A matrix of the size {}.", number);
    return static_cast<int64_t>(number);
  };
  const int64_t bins = size(0, 4096), length = size(1, 1 << 20);
  const double rate = one(2), low = one(3), high = one(4);
  const int64_t rows = length / 2 + 1;
  auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  auto hertz = [](double m) { return 700 * (std::pow(10, m / 2595) - 1); };
  std::vector<int64_t> edges;
  const double step = (mel(high) - mel(low)) / static_cast<double>(bins + 2);
  for (int64_t i = 0; i < bins + 2; ++i) {
    const double edge = (static_cast<double>(length) + 1) * hertz(mel(low) + static_cast<double>(i) * step) / rate;
    if (!(std::abs(edge) < 1e15)) Reject("Frequencies from {} to {} at a rate of {}.", low, high, rate);
    edges.push_back(static_cast<int64_t>(std::floor(edge)));
  }
  std::vector<double> out(static_cast<std::size_t>(rows * bins));
  for (int64_t i = 0; i < bins; ++i) {
    const int64_t lower = edges[static_cast<std::size_t>(i)], centre = edges[static_cast<std::size_t>(i + 1)],
                  upper = edges[static_cast<std::size_t>(i + 2)];
    for (int64_t j = std::max<int64_t>(lower, 0); j < std::min(std::max(upper, centre + 1), rows); ++j) {
      const double rise = centre == lower ? 1 : static_cast<double>(j - lower) / static_cast<double>(centre - lower);
      const double fall = upper == centre ? 0 : static_cast<double>(upper - j) / static_cast<double>(upper - centre);
      if (j <= centre && (j != centre || centre == lower || rise == 1))
        out[static_cast<std::size_t>(j * bins + i)] = j < centre || centre != lower ? rise : 1;
      else if (j < upper) out[static_cast<std::size_t>(j * bins + i)] = fall;
    }
  }
  return {FromNumbers(c.b, ToElementType(c.Int("output_datatype", 1)), out, Ints{rows, bins})};
}

namespace {
// -log p of the class of each place: [N, C, d...] and [N, d...]. The loss, reduced as the node says.
XlaOp LossOf(Call& c, XlaOp log_p, XlaOp labels, std::size_t weight_at) {
  const Ints d = DimsOf(log_p);
  if (d.size() < 2) Reject("Its operand must be [N, C, ...].");
  Ints flat = d, places = Range(0, static_cast<int64_t>(d.size()));
  flat.erase(flat.begin() + 1);
  places.erase(places.begin() + 1);
  labels = Convert(labels, S64);
  const bool ignores = c.Find("ignore_index") != nullptr;
  const XlaOp kept = Ne(labels, Like(labels, static_cast<double>(c.Int("ignore_index", INT32_MIN))));
  const XlaOp hit = Eq(Iota(c.b, MakeShape(S64, d), 1), BroadcastInDim(labels, d, places));
  auto chosen = [&](XlaOp x) {
    return ReduceBy(Fold::kSum, Select(hit, x, BroadcastTo(Like(x, 0), d)), Ints{1}, false);
  };
  XlaOp loss = Neg(chosen(log_p));
  XlaOp weight = c.Has(weight_at) ? chosen(AlongAxis(c.In(weight_at), d, 1)) : Filled(c.b, TypeOf(log_p), flat, 1);
  if (ignores) weight = Select(kept, weight, BroadcastTo(Like(weight, 0), flat));
  loss = Mul(loss, weight);
  if (ignores) loss = Select(kept, loss, BroadcastTo(Like(loss, 0), flat));
  const std::string reduction = c.Text("reduction", "mean");
  const Ints all = Range(0, static_cast<int64_t>(flat.size()));
  if (reduction == "none") return loss;
  const XlaOp sum = ReduceBy(Fold::kSum, loss, all, false);
  return reduction == "sum" ? sum : Div(sum, ReduceBy(Fold::kSum, weight, all, false));
}
}  // namespace
Outputs OnNegativeLogLikelihoodLoss(Call& c) { return {LossOf(c, c.In(0), c.In(1), 2)}; }
Outputs OnSoftmaxCrossEntropyLoss(Call& c) {
  const XlaOp log_p = SoftmaxOver(c.In(0), Axis(1, RankOf(c.In(0))), true);
  return {LossOf(c, log_p, c.In(1), 2), log_p};
}

}  // namespace krafla::onnx
