// SPDX-License-Identifier: Apache-2.0
// With base dilation b and stride s, the outputs o, o + P, o + 2P, .. (P = b / gcd(s, b)) see the same elements of the
// window that do not fall on inserted zeros, and see them over consecutive elements of the input: an ordinary
// convolution for each such phase of the output, with a window that is every few elements of the given one. Reversal is
// a kernel with negative strides, negative padding a view of the input that begins later or ends earlier, a batch group
// a range of the batch with its range of output channels.
#include "cpu_fallback/executor/conv_pieces.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/checked_math.h"
#include "base/index.h"
#include "krafla/shape.h"

namespace krafla::cpu {

namespace {

constexpr std::size_t kMostPieces = 4096;

// One phase of one spatial dimension.
struct Phase {
  int64_t first_output = 0, output_step = 1, outputs = 0;
  int64_t first_tap = 0, tap_step = 1, taps = 0;  // of the window, in the order in which it is walked
  int64_t input_begin = 0, inputs = 0;
  int64_t stride = 1, dilation = 1, padding_low = 0, padding_high = 0;

  bool IsZero() const { return taps == 0 || inputs <= 0; }
};

std::vector<Phase> PhasesOf(const WindowDim& w, int64_t input, int64_t output) {
  std::vector<Phase> out;
  const int64_t b = w.base_dilation, period = b / std::gcd(w.stride, b);
  for (int64_t p = 0; p < std::min(period, output); ++p) {
    Phase phase;
    phase.first_output = p;
    phase.output_step = period;
    phase.outputs = CeilDiv(output - p, period);
    phase.tap_step = b / std::gcd(w.window_dilation, b);
    phase.stride = period * w.stride / b;
    phase.dilation = phase.tap_step * w.window_dilation / b;
    // The first element of the window that falls on an element of the input.
    const int64_t most = std::min(w.size, phase.tap_step);
    const auto position = [&](int64_t tap) { return p * w.stride + tap * w.window_dilation - w.padding_low; };
    while (phase.first_tap < most && position(phase.first_tap) % b != 0) ++phase.first_tap;
    if (phase.first_tap < most) {
      phase.taps = CeilDiv(w.size - phase.first_tap, phase.tap_step);
      const int64_t begin = position(phase.first_tap) / b;
      const int64_t end = begin + (phase.outputs - 1) * phase.stride + (phase.taps - 1) * phase.dilation + 1;
      phase.input_begin = std::clamp<int64_t>(begin, 0, input);
      phase.inputs = std::clamp<int64_t>(end, phase.input_begin, input) - phase.input_begin;
      phase.padding_low = phase.input_begin - begin;
      phase.padding_high = end - phase.input_begin - phase.inputs;
      // What the stride leaves over at the end does no harm, and a whole array is better than a view of most of it.
      if (phase.inputs > 0 && input - phase.input_begin - phase.inputs < phase.stride)
        phase.inputs = input - phase.input_begin;
    }
    out.push_back(phase);
  }
  return out;
}

// Dimensions and strides in the order batch, feature, spatial.
TensorView ViewOf(const Dims& dims, const Dims& strides, int64_t first, int64_t second, const Dims& spatial,
                  ElementType type) {
  TensorView out{{dims[At(first)], dims[At(second)]}, {strides[At(first)], strides[At(second)]}, type};
  for (int64_t s : spatial) {
    out.dims.push_back(dims[At(s)]);
    out.strides.push_back(strides[At(s)]);
  }
  return out;
}

void CutView(TensorView& view, std::size_t dim, int64_t begin, int64_t size, int64_t step = 1) {
  view.offset += begin * view.strides[dim];
  view.dims[dim] = size;
  view.strides[dim] *= step;
}

ConvolutionProblem ViewsOf(const plan::ConvKernel& body, const Dims& result_strides, int64_t result_offset,
                           ElementType result_type) {
  const ConvolutionAttributes& a = body.attributes;
  ConvolutionProblem out;
  out.input = ViewOf(body.input_dims, RowMajorStrides(body.input_dims), a.input_batch, a.input_feature, a.input_spatial,
                     body.input_type);
  out.kernel = ViewOf(body.kernel_dims, RowMajorStrides(body.kernel_dims), a.kernel_output_feature,
                      a.kernel_input_feature, a.kernel_spatial, body.kernel_type);
  out.result =
      ViewOf(body.output_dims, result_strides, a.output_batch, a.output_feature, a.output_spatial, result_type);
  out.result.offset = result_offset;
  for (std::size_t d = 0; d < a.window.size(); ++d) {
    if (!a.window[d].reversal) continue;
    out.kernel.offset += (out.kernel.dims[2 + d] - 1) * out.kernel.strides[2 + d];
    out.kernel.strides[2 + d] = -out.kernel.strides[2 + d];
  }
  out.window.groups = a.feature_group_count;
  return out;
}

}  // namespace

std::optional<ConvolutionProblem> WithGroups(const plan::ConvKernel& body, const Dims& result_strides,
                                             int64_t result_offset, ElementType result_type) {
  ConvolutionProblem out = ViewsOf(body, result_strides, result_offset, result_type);
  for (const WindowDim& w : body.attributes.window) {
    if (w.base_dilation != 1) return std::nullopt;
    out.window.strides.push_back(w.stride);
    out.window.dilations.push_back(w.window_dilation);
    out.window.padding_low.push_back(w.padding_low);
    out.window.padding_high.push_back(w.padding_high);
  }
  return out;
}

std::optional<ConvPieces> CutIntoOrdinary(const plan::ConvKernel& body, const Dims& result_strides,
                                          int64_t result_offset, ElementType result_type) {
  const ConvolutionAttributes& a = body.attributes;
  const std::size_t rank = a.window.size();
  const ConvolutionProblem whole = ViewsOf(body, result_strides, result_offset, result_type);
  std::vector<std::vector<Phase>> phases;
  std::size_t count = static_cast<std::size_t>(a.batch_group_count);
  for (std::size_t d = 0; d < rank; ++d) {
    if (a.window[d].base_dilation > static_cast<int64_t>(kMostPieces)) return std::nullopt;
    phases.push_back(PhasesOf(a.window[d], whole.input.dims[2 + d], whole.result.dims[2 + d]));
    count *= phases.back().size();
    if (count > kMostPieces) return std::nullopt;
  }
  ConvPieces out;
  Dims chosen(rank, 0), bounds(rank, 1);
  for (std::size_t d = 0; d < rank; ++d) bounds[d] = static_cast<int64_t>(phases[d].size());
  do {
    ConvolutionProblem piece = whole;
    bool zero = false;
    for (std::size_t d = 0; d < rank; ++d) {
      const Phase& p = phases[d][At(chosen[d])];
      zero |= p.IsZero();
      CutView(piece.result, 2 + d, p.first_output, p.outputs, p.output_step);
      CutView(piece.input, 2 + d, p.input_begin, p.inputs);
      CutView(piece.kernel, 2 + d, p.first_tap, p.taps, p.tap_step);
      piece.window.strides.push_back(p.stride);
      piece.window.dilations.push_back(p.taps == 1 ? 1 : p.dilation);
      piece.window.padding_low.push_back(p.padding_low);
      piece.window.padding_high.push_back(p.padding_high);
    }
    if (zero) {
      out.zeros.push_back(piece.result);
      continue;
    }
    const int64_t groups = a.batch_group_count;
    const int64_t images = whole.input.dims[0] / groups, channels = whole.result.dims[1] / groups;
    for (int64_t g = 0; g < groups; ++g) {
      ConvolutionProblem part = piece;
      CutView(part.input, 0, g * images, images);
      CutView(part.kernel, 0, g * channels, channels);
      CutView(part.result, 1, g * channels, channels);
      out.ordinary.push_back(std::move(part));
    }
  } while (NextIndex({chosen.data(), chosen.size()}, bounds));
  return out;
}

std::optional<ConvolutionProblem> WithLongestInnermost(const ConvolutionProblem& problem) {
  constexpr int64_t kFewPositions = 4, kManyPositions = 32;
  constexpr double kMostProducts = 8e6;
  const Dims& dims = problem.result.dims;
  const auto longest = std::max_element(dims.begin() + 2, dims.end());
  double products = 1;
  for (int64_t extent : dims) products *= static_cast<double>(extent);
  for (std::size_t d = 1; d < problem.kernel.dims.size(); ++d) products *= static_cast<double>(problem.kernel.dims[d]);
  if (problem.input.type != ElementType::kF32 || dims.size() < 4 || dims.back() > kFewPositions ||
      *longest < kManyPositions || products > kMostProducts)
    return std::nullopt;
  const auto d = static_cast<std::size_t>(longest - dims.begin()), last = dims.size() - 1;
  ConvolutionProblem out = problem;
  for (TensorView* view : {&out.input, &out.kernel, &out.result}) {
    std::swap(view->dims[d], view->dims[last]);
    std::swap(view->strides[d], view->strides[last]);
  }
  ConvolutionWindow& w = out.window;
  for (Dims* of : {&w.strides, &w.dilations, &w.padding_low, &w.padding_high}) std::swap((*of)[d - 2], (*of)[last - 2]);
  return out;
}

ConvolutionProblem DepthwiseAsPictures(const ConvolutionProblem& problem) {
  ConvolutionProblem out = problem;
  if (problem.window.strides.size() != 1 || problem.window.groups == 1) return out;
  for (TensorView* view : {&out.input, &out.kernel, &out.result}) {
    view->dims.insert(view->dims.begin() + 2, 1);
    view->strides.insert(view->strides.begin() + 2, view->dims.back() * view->strides.back());
  }
  ConvolutionWindow& w = out.window;
  for (Dims* of : {&w.strides, &w.dilations}) of->insert(of->begin(), 1);
  for (Dims* of : {&w.padding_low, &w.padding_high}) of->insert(of->begin(), 0);
  return out;
}

void FillWithZeros(const TensorView& view, std::byte* base) {
  const auto width = static_cast<std::size_t>(StorageBytes(view.type));
  // Runs along the dimension that is dense, where there is one.
  Dims dims = view.dims, index(view.dims.size(), 0);
  std::size_t run = 1;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (view.strides[d] != 1 || dims[d] == 1) continue;
    run = static_cast<std::size_t>(dims[d]);
    dims[d] = 1;
    break;
  }
  do {
    int64_t at = view.offset;
    for (std::size_t d = 0; d < index.size(); ++d) at += index[d] * view.strides[d];
    std::memset(base + static_cast<std::size_t>(at) * width, 0, run * width);
  } while (NextIndex({index.data(), index.size()}, dims));
}

}  // namespace krafla::cpu
