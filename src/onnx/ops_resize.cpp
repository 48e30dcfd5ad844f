// SPDX-License-Identifier: Apache-2.0
// Resize: each axis by itself, as a sum of weighted elements whose places and weights are known.
#include <algorithm>
#include <cmath>

#include "onnx/call.h"

namespace krafla::onnx {
namespace {

struct AxisPlan {
  int64_t in = 0, out = 0;
  double scale = 1, roi_first = 0, roi_last = 1;
};
struct Settings {
  std::string mode, coordinates, rounding;
  double cubic_a = -0.75, extrapolation = 0;
  bool antialias = false, exclude_outside = false;
};
// An element of the result: which elements of the operand, and how much of each.
struct Taps {
  Ints places;
  std::vector<double> weights;
  bool outside = false;
};

// In f32, as ONNX Runtime has it: where rounding down decides, 6 / 1.2f is 5. Sizes are those of the arrays, which
// PyTorch means too; the standard's own implementation leaves a size that a scale gives unrounded here.
double SourceOf(const Settings& s, const AxisPlan& a, int64_t x) {
  const auto at = static_cast<float>(x), in = static_cast<float>(a.in), out = static_cast<float>(a.out),
             scale = static_cast<float>(a.scale);
  if (s.coordinates == "asymmetric") return at / scale;
  if (s.coordinates == "align_corners") return a.out > 1 ? at * (in - 1) / (out - 1) : 0;
  if (s.coordinates == "pytorch_half_pixel") return a.out > 1 ? (at + 0.5F) / scale - 0.5F : 0;
  if (s.coordinates == "tf_half_pixel_for_nn") return (at + 0.5F) / scale;
  if (s.coordinates == "tf_crop_and_resize") {
    const auto first = static_cast<float>(a.roi_first), last = static_cast<float>(a.roi_last);
    return a.out > 1 ? first * (in - 1) + at * (last - first) * (in - 1) / (out - 1) : 0.5F * (first + last) * (in - 1);
  }
  if (s.coordinates == "half_pixel_symmetric") return in / 2 * (1 - out / (scale * in)) + (at + 0.5F) / scale - 0.5F;
  if (s.coordinates == "half_pixel") return (at + 0.5F) / scale - 0.5F;
  Refuse("The coordinate mode '{}' is unknown.", s.coordinates);
}
double Rounded(const std::string& mode, double x) {
  if (mode == "floor") return std::floor(x);
  if (mode == "ceil") return std::ceil(x);
  if (mode == "round_prefer_ceil") return std::floor(x + 0.5);
  if (mode == "round_prefer_floor") return std::ceil(x - 0.5);
  Refuse("The rounding '{}' is unknown.", mode);
}
double Cubic(double a, double x) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}
Taps TapsOf(const Settings& s, const AxisPlan& a, int64_t x) {
  const double source = SourceOf(s, a, x);
  Taps out;
  out.outside = s.coordinates == "tf_crop_and_resize" && (source < 0 || source > static_cast<double>(a.in - 1));
  if (s.mode == "nearest") {
    const double place = std::clamp(Rounded(s.rounding, source), 0.0, static_cast<double>(a.in - 1));
    return {{static_cast<int64_t>(place)}, {1}, out.outside};
  }
  const double stretch = s.antialias && a.scale < 1 ? a.scale : 1, reach = (s.mode == "cubic" ? 2 : 1) / stretch;
  // The neighbours of the source within reach; a place of its own at a whole number has weight 1.
  const auto first = static_cast<int64_t>(std::floor(source - reach)) + 1,
             last = static_cast<int64_t>(std::ceil(source + reach)) - 1;
  double sum = 0;
  for (int64_t place = first; place <= last; ++place) {
    const double distance = (static_cast<double>(place) - source) * stretch;
    double weight = s.mode == "cubic" ? Cubic(s.cubic_a, distance) : std::max(0.0, 1 - std::abs(distance));
    const bool inside = place >= 0 && place < a.in;
    if (!inside && s.exclude_outside) weight = 0;
    if (weight == 0) continue;
    sum += weight;
    const int64_t clamped = std::clamp<int64_t>(place, 0, a.in - 1);
    if (auto known = std::ranges::find(out.places, clamped); known != out.places.end()) {
      out.weights[static_cast<std::size_t>(known - out.places.begin())] += weight;
    } else {
      out.places.push_back(clamped);
      out.weights.push_back(weight);
    }
  }
  if ((s.exclude_outside || stretch != 1) && sum != 0)
    for (double& w : out.weights) w /= sum;
  return out;
}

// Every element repeated `times` times: a broadcast, no gather.
XlaOp Repeated(XlaOp x, int64_t axis, int64_t times) {
  Ints dims = DimsOf(x), wide, places;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    places.push_back(static_cast<int64_t>(wide.size()));
    wide.push_back(dims[i]);
    if (static_cast<int64_t>(i) == axis) wide.push_back(times);
  }
  dims[static_cast<std::size_t>(axis)] *= times;
  return Reshape(BroadcastInDim(x, wide, places), dims);
}

XlaOp ResizeAxis(XlaOp x, int64_t axis, const std::vector<Taps>& taps) {
  const int64_t in = ShapeOf(x).dim(axis), out = static_cast<int64_t>(taps.size());
  if (out == 0) return SliceInDim(x, 0, 0, 1, axis);
  std::size_t most = 0;
  for (const Taps& t : taps) most = std::max(most, t.places.size());
  if (most == 1 && std::ranges::all_of(taps, [](const Taps& t) { return t.weights[0] == 1; })) {
    const int64_t times = in == 0 ? 0 : out / in;
    Ints places;
    bool regular = in > 0 && out % in == 0;
    for (std::size_t i = 0; i < taps.size(); ++i) {
      places.push_back(taps[i].places[0]);
      regular = regular && places.back() == static_cast<int64_t>(i) / times;
    }
    return regular ? Repeated(x, axis, times) : TakeAt(x, axis, places);
  }
  const ElementType type = TypeOf(x), work = type == F64 ? F64 : F32;
  if (most <= 4) {  // a sum of a few gathers
    XlaOp sum;
    for (std::size_t t = 0; t < most; ++t) {
      Ints places;
      std::vector<double> weights;
      for (const Taps& one : taps) {
        places.push_back(t < one.places.size() ? one.places[t] : 0);
        weights.push_back(t < one.places.size() ? one.weights[t] : 0);
      }
      const XlaOp taken = Convert(TakeAt(x, axis, places), work);
      const XlaOp part = Mul(taken, AlongAxis(FromNumbers(x.builder(), work, weights, Ints{out}), DimsOf(taken), axis));
      sum = t == 0 ? part : Add(sum, part);
    }
    return sum;
  }
  std::vector<double> matrix(static_cast<std::size_t>(Volume(Ints{in, out})));
  for (std::size_t i = 0; i < taps.size(); ++i)
    for (std::size_t t = 0; t < taps[i].places.size(); ++t)
      matrix[i * static_cast<std::size_t>(in) + static_cast<std::size_t>(taps[i].places[t])] += taps[i].weights[t];
  DotDimensionNumbers numbers;
  numbers.lhs_contracting_dimensions = {axis};
  numbers.rhs_contracting_dimensions = {1};
  const XlaOp y = DotGeneral(Convert(x, work), FromNumbers(x.builder(), work, matrix, Ints{out, in}), numbers);
  return MoveAxis(y, RankOf(y) - 1, axis);
}

// Axes that the node resizes, with their sizes and scales.
std::vector<AxisPlan> PlanAxes(Call& c, const Settings& s, const Ints& dims, std::size_t scales_at,
                               std::size_t sizes_at, std::size_t roi_at) {
  std::vector<AxisPlan> plan;
  for (int64_t d : dims) plan.push_back({.in = d, .out = d});
  Ints axes = c.List("axes").value_or(Range(0, static_cast<int64_t>(dims.size())));
  for (int64_t& axis : axes) axis = Axis(axis, static_cast<int64_t>(dims.size()));
  auto given = [&](std::size_t i) { return i < 10 && c.Has(i) && c.ShapeOf(i).element_count() > 0; };
  if (given(sizes_at)) {
    const Ints sizes = c.KnownInts(sizes_at, "the sizes");
    if (sizes.size() != axes.size()) Reject("It has {} sizes for {} axes.", sizes.size(), axes.size());
    const std::string policy = c.Text("keep_aspect_ratio_policy", "stretch");
    double common = policy == "not_larger" ? INFINITY : 0;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const double ratio = static_cast<double>(sizes[i]) / static_cast<double>(dims[static_cast<std::size_t>(axes[i])]);
      common = policy == "not_larger" ? std::min(common, ratio) : std::max(common, ratio);
    }
    for (std::size_t i = 0; i < axes.size(); ++i) {
      AxisPlan& a = plan[static_cast<std::size_t>(axes[i])];
      a.out = policy == "stretch" ? sizes[i] : std::llround(common * static_cast<double>(a.in));
      a.scale = policy == "stretch" ? static_cast<double>(a.out) / static_cast<double>(a.in) : common;
    }
  } else {
    std::vector<double> scales;
    if (given(scales_at)) scales = c.KnownNumbers(scales_at, "the scales");
    else if (auto list = c.Floats("scales")) scales.assign(list->begin(), list->end());
    if (scales.size() != axes.size()) Reject("It has {} scales for {} axes.", scales.size(), axes.size());
    for (std::size_t i = 0; i < axes.size(); ++i) {
      AxisPlan& a = plan[static_cast<std::size_t>(axes[i])];
      // In f32 too: three times 5/3 are 5.
      const auto size = static_cast<double>(std::floor(static_cast<float>(a.in) * static_cast<float>(scales[i])));
      if (!(scales[i] > 0 && size < 1e9)) Reject("A scale of {}.", scales[i]);
      a.out = static_cast<int64_t>(size);
      a.scale = scales[i];
    }
  }
  if (s.coordinates == "tf_crop_and_resize") {
    const std::vector<double> roi = c.KnownNumbers(roi_at, "the region");
    if (roi.size() != 2 * axes.size()) Reject("The region has {} numbers.", roi.size());
    for (std::size_t i = 0; i < axes.size(); ++i) {
      AxisPlan& a = plan[static_cast<std::size_t>(axes[i])];
      a.roi_first = roi[i];
      a.roi_last = roi[i + axes.size()];
    }
  }
  for (const AxisPlan& a : plan)
    if (a.out < 0 || a.out > (1 << 24) || (a.in == 0 && a.out > 0)) Reject("A size of {} from {}.", a.out, a.in);
  return plan;
}

XlaOp ResizeAll(XlaOp x, const Settings& s, const std::vector<AxisPlan>& plan) {
  const ElementType type = TypeOf(x);
  std::vector<std::vector<Taps>> outside(plan.size());
  XlaOp y = x;
  bool any_outside = false;
  for (std::size_t d = 0; d < plan.size(); ++d) {
    const AxisPlan& a = plan[d];
    const bool crops = s.coordinates == "tf_crop_and_resize" && (a.roi_first != 0 || a.roi_last != 1);
    if (a.in == a.out && a.scale == 1 && !crops) continue;
    std::vector<Taps> taps;
    for (int64_t i = 0; i < a.out; ++i) taps.push_back(TapsOf(s, a, i));
    y = ResizeAxis(y, static_cast<int64_t>(d), taps);
    for (const Taps& t : taps) any_outside |= t.outside;
    outside[d] = std::move(taps);
  }
  if (any_outside) {
    const Ints dims = DimsOf(y);
    for (std::size_t d = 0; d < plan.size(); ++d) {
      std::vector<double> flags;
      for (const Taps& t : outside[d]) flags.push_back(t.outside ? 1 : 0);
      if (std::ranges::find(flags, 1) == flags.end()) continue;
      const XlaOp mask =
          AlongAxis(FromNumbers(x.builder(), F32, flags, Ints{plan[d].out}), dims, static_cast<int64_t>(d));
      y = Select(Gt(mask, Like(mask, 0)), BroadcastTo(Like(y, s.extrapolation), dims), y);
    }
  }
  if (TypeOf(y) != type && !IsFloat(type)) y = RoundNearestEven(y);
  return Convert(y, type);
}

}  // namespace

Outputs OnResize(Call& c) {
  const XlaOp x = c.In(0);
  Settings s;
  s.mode = c.Text("mode", "nearest");
  if (s.mode != "nearest" && s.mode != "linear" && s.mode != "cubic") Refuse("The mode '{}' is unknown.", s.mode);
  s.coordinates = c.opset >= 11 ? c.Text("coordinate_transformation_mode", "half_pixel") : "asymmetric";
  s.rounding = c.opset >= 11 ? c.Text("nearest_mode", "round_prefer_floor") : "floor";
  if (s.coordinates == "tf_half_pixel_for_nn" && c.Find("nearest_mode") == nullptr) s.rounding = "floor";
  s.cubic_a = c.Float("cubic_coeff_a", -0.75F);
  s.extrapolation = c.Float("extrapolation_value", 0);
  s.antialias = c.Int("antialias", 0) != 0;
  s.exclude_outside = c.Int("exclude_outside", 0) != 0;
  const bool old = c.opset < 11;
  return {ResizeAll(x, s, PlanAxes(c, s, DimsOf(x), old ? 1 : 2, old ? 99 : 3, 1))};
}
Outputs OnUpsample(Call& c) {
  const XlaOp x = c.In(0);
  Settings s;
  s.mode = c.Text("mode", "nearest");
  s.coordinates = "asymmetric";
  s.rounding = "floor";
  return {ResizeAll(x, s, PlanAxes(c, s, DimsOf(x), 1, 99, 99))};
}

}  // namespace krafla::onnx
