// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/window_sums.h"

#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "base/index.h"
#include "base/interruption.h"
#include "cpu_fallback/kernels/block_ops.h"
#include "krafla/shape.h"

namespace krafla::cpu {

namespace {

// Fewer elements are as fast one by one.
constexpr int64_t kLeastElements = 4;

}  // namespace

std::optional<ConvolutionProblem> WindowSums::ProblemOf(const WindowFold& fold, const WindowFold::Target& target,
                                                        ElementType type, std::span<const int64_t> row_dims) {
  constexpr int64_t kFar = int64_t{1} << 60;
  const std::size_t rows = row_dims.size();
  ConvolutionProblem p;
  p.input = {{1, 1}, {0, 0}, type, fold.offset_};
  p.kernel = {{1, 1}, {0, 0}, type};
  p.result = {{1, 1}, {0, 0}, type, target.offset};
  std::vector<bool> is_seen(fold.bounds_.size(), false), is_window(fold.element_dims_.size(), false);
  for (std::size_t d = 0; d < rows; ++d) {
    if (row_dims[d] == 1) continue;
    // The bounds along `d`, which tell how the window's own dimension moves with it.
    std::optional<std::size_t> element;
    int64_t start = 0, low = -kFar, high = kFar, step = 1, dilation = 1;
    for (std::size_t b = 0; b < fold.bounds_.size(); ++b) {
      const WindowFold::Bound& bound = fold.bounds_[b];
      if (bound.coefficients[d] == 0) continue;
      std::optional<std::size_t> along;
      for (std::size_t k = 0; k < bound.coefficients.size(); ++k) {
        if (k == d || bound.coefficients[k] == 0) continue;
        if (k < rows || along) return std::nullopt;
        along = k - rows;
      }
      if (!along || (element && (*element != *along || start != bound.constant || step != bound.coefficients[d] ||
                                 dilation != bound.coefficients[rows + *along])))
        return std::nullopt;
      element = along, start = bound.constant, step = bound.coefficients[d];
      dilation = bound.coefficients[rows + *along];
      low = std::max(low, bound.lo), high = std::min(high, bound.hi);
      is_seen[b] = true;
    }
    if (!element) {
      // An image, of which there is one dimension.
      if (p.input.dims[0] != 1) return std::nullopt;
      p.input.dims[0] = p.result.dims[0] = row_dims[d];
      p.input.strides[0] = fold.strides_[d], p.result.strides[0] = target.strides[d];
      continue;
    }
    const int64_t taps = fold.element_dims_[*element], between = fold.strides_[rows + *element];
    if (is_window[*element] || step <= 0 || dilation <= 0 || between % dilation != 0) return std::nullopt;
    is_window[*element] = true;
    const int64_t stride = between / dilation;
    if (stride <= 0 || fold.strides_[d] != stride * step) return std::nullopt;
    // Bounds that no element of the window reaches are not there.
    if (low == -kFar) low = std::min<int64_t>(start, 0);
    if (high == kFar) high = start + (row_dims[d] - 1) * step + (taps - 1) * dilation + 1;
    if (high <= low) return std::nullopt;
    p.input.dims.push_back(high - low), p.input.strides.push_back(stride);
    p.input.offset += (low - start) * stride;
    p.kernel.dims.push_back(taps);
    p.result.dims.push_back(row_dims[d]), p.result.strides.push_back(target.strides[d]);
    p.window.strides.push_back(step), p.window.dilations.push_back(dilation);
    p.window.padding_low.push_back(low - start), p.window.padding_high.push_back(0);
  }
  p.kernel.strides = RowMajorStrides(p.kernel.dims);
  if (p.window.strides.empty() || std::ranges::count(is_seen, false) > 0) return std::nullopt;
  for (std::size_t e = 0; e < is_window.size(); ++e)
    if (!is_window[e] && fold.element_dims_[e] > 1) return std::nullopt;
  return p;
}

std::optional<WindowSums> WindowSums::Find(const WindowFold& fold, const WindowFold::Target& target,
                                           const plan::Reduction& reduction, std::span<const int64_t> row_dims,
                                           int threads) {
  const ElementType type = reduction.hlo_type;
  if (reduction.kind != plan::Reduction::Kind::kSum || (type != ElementType::kF32 && type != ElementType::kF64))
    return std::nullopt;
  // Without bounds the sums may begin with anything, and borders leave nothing out.
  if (fold.bounds_.empty() || !fold.skips_outside_ || fold.elements_ < kLeastElements) return std::nullopt;
  const std::optional<ConvolutionProblem> problem = ProblemOf(fold, target, type, row_dims);
  // Rows are the last dimension, and lie element by element; of several at once none has steps.
  if (!problem || std::ranges::count(problem->window.strides, 1) < std::ssize(problem->window.strides) ||
      problem->input.strides.back() != 1 || problem->result.strides.back() != 1 ||
      !RowConv::Takes({&*problem, 1}, type))
    return std::nullopt;
  return WindowSums(*problem, fold.buffer_, target.buffer, threads);
}

WindowSums::WindowSums(const ConvolutionProblem& problem, int from, int to, int threads)
    : problem_(problem), conv_({&problem, 1}, problem.input.type, threads), from_(from), to_(to) {
  const auto width = At(StorageBytes(problem.input.type));
  const float one_f32 = 1;
  const double one_f64 = 1;
  const void* one = width == sizeof(float) ? static_cast<const void*>(&one_f32) : &one_f64;
  ones_.resize(At(Product(problem.kernel.dims)) * width);
  for (std::size_t at = 0; at < ones_.size(); at += width) std::memcpy(ones_.data() + at, one, width);
}

void WindowSums::Run(std::span<std::byte* const> buffers, ThreadPool& pool, std::byte* scratch) const {
  std::byte* const to = buffers[At(to_)];
  conv_.Run(buffers[At(from_)], ones_.data(), to, pool, scratch);
  const TensorView& result = problem_.result;
  Dims outer = result.dims;
  const int64_t length = outer.back();
  outer.pop_back();
  const int64_t rows = Product(outer);
  pool.ParallelFor(rows, CeilDiv(int64_t{16 * 1024}, length), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t rest = row, at = result.offset;
      for (std::size_t d = outer.size(); d-- > 0; rest /= outer[d]) at += rest % outer[d] * result.strides[d];
      SettleNans(result.type, to + at * StorageBytes(result.type), length);
    }
  });
}

}  // namespace krafla::cpu
