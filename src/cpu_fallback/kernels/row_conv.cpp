// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/row_conv.h"

#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "base/index.h"
#include "base/interruption.h"
#include "cpu_fallback/kernels/move.h"
#include "cpu_fallback/kernels/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/row_conv.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Positions [x, x + kVectors vectors) of kFeatures rows.
template <class T, int kFeatures, int kVectors>
HWY_INLINE void AddPositions(const RowConvSums& s, int64_t feature, int64_t x) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V sums[kFeatures][kVectors];
  KRAFLA_UNROLL(4)
  for (int f = 0; f < kFeatures; ++f) {
    KRAFLA_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) sums[f][v] = hn::Zero(d);
  }
  for (std::size_t n = 0; n < s.rows.size(); ++n) {
    const T* row = reinterpret_cast<const T*>(s.rows[n]) + x;
    const T* weight = reinterpret_cast<const T*>(s.weights[n]) + feature;
    for (std::size_t t = 0; t < s.shifts.size(); ++t, weight += s.features) {
      const T* from = row + s.shifts[t];
      V values[kVectors];
      KRAFLA_UNROLL(8)
      for (int v = 0; v < kVectors; ++v) values[v] = hn::LoadU(d, from + v * lanes);
      KRAFLA_UNROLL(4)
      for (int f = 0; f < kFeatures; ++f) {
        const V factor = hn::Set(d, weight[f]);
        KRAFLA_UNROLL(8)
        for (int v = 0; v < kVectors; ++v) sums[f][v] = hn::MulAdd(factor, values[v], sums[f][v]);
      }
    }
  }
  KRAFLA_UNROLL(4)
  for (int f = 0; f < kFeatures; ++f) {
    T* to = reinterpret_cast<T*>(s.sums) + (feature + f) * s.sums_stride + x;
    KRAFLA_UNROLL(8)
    for (int v = 0; v < kVectors; ++v, to += lanes)
      hn::StoreU(s.is_fresh ? sums[f][v] : hn::Add(hn::LoadU(d, to), sums[f][v]), d, to);
  }
}
// From position x on, as many vectors at once as are left; fewer do not hide how long an addition takes.
template <class T, int kFeatures, int kVectors>
HWY_INLINE void AddFeatures(const RowConvSums& s, int64_t feature, int64_t x) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const int64_t end = (s.length + lanes - 1) / lanes * lanes;
  for (; x + kVectors * lanes <= end; x += kVectors * lanes) AddPositions<T, kFeatures, kVectors>(s, feature, x);
  if constexpr (kVectors > 1) AddFeatures<T, kFeatures, kVectors / 2>(s, feature, x);
}
template <class T>
void AddRowConv(const RowConvSums& s) {
  int64_t f = 0;
  for (; f + 4 <= s.features; f += 4) AddFeatures<T, 4, 2>(s, f, 0);
  if (s.features - f == 3) AddFeatures<T, 3, 2>(s, f, 0);
  else if (s.features - f == 2) AddFeatures<T, 2, 4>(s, f, 0);
  else if (s.features - f == 1) AddFeatures<T, 1, 8>(s, f, 0);
}

template <class T>
RowConvLoops RowConvLoopsOf() {
  return {&AddRowConv<T>, static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()))};
}
RowConvLoops FindRowConvLoops(ElementType type) {
  using enum ElementType;
  if (type == kF32) return RowConvLoopsOf<float>();
  if (type == kF64) return RowConvLoopsOf<double>();
  // Integers wrap, whatever their signs.
  if (type == kS32 || type == kU32) return RowConvLoopsOf<int32_t>();
  if (type == kS64 || type == kU64) return RowConvLoopsOf<int64_t>();
  return {};
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindRowConvLoops);

namespace {

// Products that are summed before they are added to what was there.
constexpr int64_t kProductsInTurn = 256;
// A copy of the input is worth it for so many products of each of its elements.
constexpr int64_t kLeastProducts = 2;
constexpr int64_t kFewChannels = 8, kMostOutputs = 64;
// Positions of rows that are one call: their sums stay in the L1 cache.
constexpr int64_t kBlockPositions = 2048;
// What a task copies for itself stays in the L2 cache.
constexpr int64_t kMostAloneBytes = 256 * 1024;
// Rows of a block that are shorter than so many vectors follow each other without filling their last ones.
constexpr int64_t kFewVectors = 8;

// The longest rows of the result.
std::size_t RowsOf(const ConvolutionProblem& p) {
  const std::size_t spatial = p.window.strides.size();
  std::size_t out = spatial - 1;
  for (std::size_t d = spatial; d-- > 0;)
    if (p.result.dims[2 + d] > 2 * p.result.dims[2 + out]) out = d;
  return out;
}

}  // namespace

bool RowConv::Takes(std::span<const ConvolutionProblem> problems, ElementType type) {
  const RowConvLoops loops = HWY_DYNAMIC_DISPATCH(FindRowConvLoops)(type);
  if (loops.run == nullptr) return false;
  for (const ConvolutionProblem& p : problems) {
    if (p.window.strides.empty() || p.input.type != type || p.kernel.type != type || p.result.type != type)
      return false;
    int64_t products = p.kernel.dims[0] / p.window.groups;
    // Of few input channels rows of a product of matrices would be gathered in many pieces.
    const int64_t length = p.result.dims[2 + RowsOf(p)];
    const bool are_dense = p.input.strides[2 + RowsOf(p)] == 1 && p.result.strides[2 + RowsOf(p)] == 1;
    const bool is_of_few =
        are_dense && p.kernel.dims[1] <= kFewChannels && products <= kMostOutputs && length >= 4 * loops.lanes;
    if ((2 * products > loops.lanes && !is_of_few) || length < loops.lanes) return false;
    for (std::size_t d = 2; d < p.kernel.dims.size(); ++d) products *= p.kernel.dims[d];
    if (products < kLeastProducts) return false;
  }
  return true;
}

bool RowConv::AreRowsOfGroups(std::span<const ConvolutionProblem> problems) {
  const int64_t lanes = HWY_DYNAMIC_DISPATCH(FindRowConvLoops)(ElementType::kF32).lanes;
  return std::ranges::all_of(problems, [&](const ConvolutionProblem& p) {
    if (p.window.strides.empty() || p.window.groups == 1) return false;
    const std::size_t along = RowsOf(p);
    // Of pictures the rows at the borders are convolved one by one, and so are all of them with steps.
    const bool is_picture = SpatialElements(p.result) > p.result.dims[2 + along];
    if (is_picture && p.result.dims[2 + along] <= 2 * lanes) return false;
    if (is_picture && std::ranges::count(p.window.strides, 1) < std::ssize(p.window.strides)) return false;
    return p.kernel.dims[1] == 1 && p.kernel.dims[0] == p.window.groups && p.input.strides[2 + along] == 1 &&
           p.result.strides[2 + along] == 1;
  });
}

int64_t RowConv::KernelBytes(const Problem& problem) const {
  return RoundUp(problem.channels * problem.outer_taps * problem.taps * problem.outputs * width_, 64);
}

RowConv::RowConv(std::span<const ConvolutionProblem> problems, ElementType type, int threads)
    : width_(StorageBytes(type)), loops_(HWY_DYNAMIC_DISPATCH(FindRowConvLoops)(type)) {
  int64_t size = 0, pointers = 0;
  for (const ConvolutionProblem& p : problems) {
    Problem problem{.p = p};
    const std::size_t along = problem.along = RowsOf(p);
    problem.channels = p.kernel.dims[1];
    problem.outputs = p.kernel.dims[0] / p.window.groups;
    problem.taps = p.kernel.dims[2 + along];
    problem.length = p.result.dims[2 + along];
    for (std::size_t d = 0; d < p.window.strides.size(); ++d) {
      if (d == along) continue;
      problem.input_rows *= p.input.dims[2 + d];
      problem.result_rows *= p.result.dims[2 + d];
      problem.outer_taps *= p.kernel.dims[2 + d];
    }
    for (int64_t o = 0; o < problem.outer_taps; ++o) problem.outer_index.push_back(RowIndex(problem, p.kernel.dims, o));
    CutIntoPhases(problem);
    ChooseBlock(problem);
    problem.first_copy = copies_, problem.first_pack = packs_, problem.first_task = tasks_;
    const int64_t groups = p.input.dims[0] * p.window.groups;
    const int64_t alone_bytes = CopyBytes(problem, problem.channels);
    problem.is_alone = groups >= 2 * threads && alone_bytes <= kMostAloneBytes;
    tasks_ += groups;
    if (problem.is_alone) {
      alone_bytes_ = std::max(alone_bytes_, alone_bytes);
    } else {
      problem.copy = size;
      size += CopyBytes(problem, p.input.dims[0] * p.input.dims[1]);
      const int64_t extent = problem.block_dim < 0 ? 1 : p.input.dims[2 + At(problem.block_dim)];
      copies_ += p.input.dims[0] * problem.input_rows / extent * problem.copy_blocks;
      tasks_ += groups * (problem.result_rows / problem.block_extent * problem.blocks - 1);
    }
    problem.packs_kernel = problem.outputs > 1 || (problem.taps > 1 && p.kernel.strides[2 + along] != 1);
    if (problem.packs_kernel) {
      problem.packed_kernel = size;
      size += p.window.groups * KernelBytes(problem);
      packs_ += p.window.groups;
    }
    copy_nanoseconds_ += static_cast<double>(CopyBytes(problem, p.input.dims[0] * p.input.dims[1])) / width_ / 2;
    nanoseconds_ += static_cast<double>(p.input.dims[0] * p.kernel.dims[0] * problem.result_rows * problem.length) *
                    static_cast<double>(problem.channels * problem.outer_taps * problem.taps) / 20;
    sums_bytes_ = std::max(sums_bytes_, problem.outputs * SumsStride(problem, problem.block_rows) * width_);
    pointers = std::max(pointers, problem.channels * problem.outer_taps);
    problems_.push_back(std::move(problem));
  }
  sums_bytes_ = RoundUp(sums_bytes_, 64);
  pointers_bytes_ = RoundUp(pointers * static_cast<int64_t>(sizeof(void*)), 64);
  worker_bytes_ = sums_bytes_ + 2 * pointers_bytes_ + alone_bytes_;
  workers_ = size;
  scratch_bytes_ = size + worker_bytes_ * threads;
}

void RowConv::CutIntoPhases(Problem& problem) const {
  const ConvolutionWindow& w = problem.p.window;
  const int64_t stride = w.strides[problem.along], dilation = w.dilations[problem.along];
  const int64_t halo = (problem.taps - 1) * dilation / stride;
  problem.phase_length = problem.length + halo;
  // A row that is alone has vectors of its own.
  const bool is_long = problem.length >= kFewVectors * loops_.lanes || w.strides.size() == 1;
  if (is_long || stride > 1) problem.phase_length = RoundUp(RoundUp(problem.length, loops_.lanes) + halo, loops_.lanes);
  for (int64_t t = 0; t < problem.taps; ++t) {
    const int64_t phase = t * dilation % stride;
    auto at = std::ranges::find(problem.phases, phase);
    if (at == problem.phases.end()) at = problem.phases.insert(at, phase);
    problem.shifts.push_back((at - problem.phases.begin()) * problem.phase_length + t * dilation / stride);
  }
  problem.row_length = std::ssize(problem.phases) * problem.phase_length;
}

// The last vector of the last row reads beyond what the row has.
int64_t RowConv::CopyBytes(const Problem& problem, int64_t channels) const {
  return RoundUp((channels * problem.input_rows * problem.row_length + loops_.lanes) * width_, 64);
}

// Rows lie in the copy one behind the other. Where a row of the result is one further than the one before it, in all
// that it reads, the positions of several are those of one long row; what lies between them is computed for nothing.
void RowConv::ChooseBlock(Problem& problem) {
  const ConvolutionProblem& p = problem.p;
  for (std::size_t d = 0; d < p.window.strides.size(); ++d)
    if (d != problem.along) problem.block_dim = static_cast<int>(d);
  if (problem.block_dim < 0) return;
  const auto d = At(problem.block_dim);
  problem.block_extent = p.result.dims[2 + d];
  const bool is_even = p.window.strides[d] == 1 && problem.phases.size() == 1;
  if (is_even) problem.block_rows = std::clamp<int64_t>(kBlockPositions / problem.row_length, 1, problem.block_extent);
  problem.blocks = CeilDiv(problem.block_extent, problem.block_rows);
  const int64_t extent = p.input.dims[2 + d];
  if (problem.channels * p.window.groups == 1)
    problem.copy_rows = std::clamp<int64_t>(kBlockPositions / problem.row_length, 1, extent);
  problem.copy_blocks = CeilDiv(extent, problem.copy_rows);
}

int64_t RowConv::SumsStride(const Problem& problem, int64_t rows) const {
  return RoundUp((rows - 1) * problem.row_length + problem.length, loops_.lanes);
}

Dims RowConv::RowIndex(const Problem& problem, const Dims& dims, int64_t row) {
  Dims out(dims.size() - 2, 0);
  for (std::size_t d = out.size(); d-- > 0;) {
    if (d == problem.along) continue;
    out[d] = row % dims[2 + d];
    row /= dims[2 + d];
  }
  return out;
}

// Where the first element of row `row` lies.
int64_t RowConv::PlaceOfRow(const Problem& problem, int64_t image, int64_t channel, int64_t row) {
  const TensorView& view = problem.p.input;
  const Dims index = RowIndex(problem, view.dims, row);
  int64_t at = view.offset + image * view.strides[0] + channel * view.strides[1];
  for (std::size_t d = 0; d < index.size(); ++d) at += index[d] * view.strides[2 + d];
  return at;
}

// Rows of all channels, from [channels][rows][phases][phase_length] on: one, or those of a block.
void RowConv::CopyRows(const Problem& problem, int64_t number, const std::byte* input, std::byte* to) const {
  const TensorView& view = problem.p.input;
  const int64_t extent = problem.block_dim < 0 ? 1 : view.dims[2 + At(problem.block_dim)];
  const int64_t first = number % problem.copy_blocks * problem.copy_rows, rest = number / problem.copy_blocks;
  const int64_t outer_rows = problem.input_rows / extent, image = rest / outer_rows, channels = view.dims[1];
  const int64_t row = rest % outer_rows * extent + first, rows = std::min(problem.copy_rows, extent - first);
  to += (image * channels * problem.input_rows + row) * problem.row_length * width_;
  CopyLines(problem, PlaceOfRow(problem, image, 0, row), channels, rows, input, to);
}

// All rows of the channels of a group.
void RowConv::CopyGroup(const Problem& problem, int64_t image, int64_t group, const std::byte* input,
                        std::byte* to) const {
  const bool are_together = problem.channels == 1 && problem.block_dim >= 0;
  const int64_t rows = are_together ? problem.p.input.dims[2 + At(problem.block_dim)] : 1;
  for (int64_t row = 0; row < problem.input_rows; row += rows)
    CopyLines(problem, PlaceOfRow(problem, image, group * problem.channels, row), problem.channels, rows, input,
              to + row * problem.row_length * width_);
}

// `rows` rows of the first of the channels, or one of each of them, from element `at` on.
void RowConv::CopyLines(const Problem& problem, int64_t at, int64_t channels, int64_t rows, const std::byte* input,
                        std::byte* to) const {
  const TensorView& view = problem.p.input;
  const int64_t stride = problem.p.window.strides[problem.along], step = view.strides[2 + problem.along];
  const int64_t padding = problem.p.window.padding_low[problem.along], length = view.dims[2 + problem.along];
  // Several rows are of one channel; channels, of which there may be many, are the rows of a tile otherwise.
  const int64_t lines = rows > 1 ? rows : channels;
  const int64_t from_step = rows > 1 ? view.strides[2 + At(problem.block_dim)] : view.strides[1];
  const int64_t to_step = rows > 1 ? problem.row_length : problem.input_rows * problem.row_length;
  if (rows > 1) std::memset(to, 0, At(rows * problem.row_length * width_));
  for (int64_t phase : problem.phases) {
    // Element q is that of position q * stride + phase - padding.
    const int64_t begin = std::min(problem.phase_length, CeilDiv(std::max<int64_t>(padding - phase, 0), stride));
    const int64_t end =
        std::clamp(CeilDiv(std::max<int64_t>(length + padding - phase, 0), stride), begin, problem.phase_length);
    for (int64_t l = 0; l < lines && rows == 1; ++l) {
      std::byte* line = to + l * to_step * width_;
      std::memset(line, 0, static_cast<std::size_t>(begin * width_));
      std::memset(line + end * width_, 0, static_cast<std::size_t>((problem.phase_length - end) * width_));
    }
    if (begin < end)
      MoveTile(width_, input + (at + (begin * stride + phase - padding) * step) * width_, {from_step, stride * step},
               to + begin * width_, {to_step, 1}, lines, end - begin);
    to += problem.phase_length * width_;
  }
}

// [channels][outer taps][taps][outputs]
void RowConv::PackKernel(const Problem& problem, int64_t group, const std::byte* kernel, std::byte* to) const {
  const TensorView& view = problem.p.kernel;
  for (int64_t c = 0; c < problem.channels; ++c)
    for (int64_t o = 0; o < problem.outer_taps; ++o) {
      const Dims& index = problem.outer_index[At(o)];
      int64_t at = view.offset + group * problem.outputs * view.strides[0] + c * view.strides[1];
      for (std::size_t d = 0; d < index.size(); ++d) at += index[d] * view.strides[2 + d];
      MoveTile(width_, kernel + at * width_, {view.strides[2 + problem.along], view.strides[0]}, to,
               {problem.outputs, 1}, problem.taps, problem.outputs);
      to += problem.taps * problem.outputs * width_;
    }
}

// The rows from `index` on, of at most `rows`, that have the same taps inside the input.
int64_t RowConv::RowsWithSameTaps(const Problem& problem, const Dims& index, int64_t rows) {
  if (rows == 1) return 1;
  const ConvolutionProblem& p = problem.p;
  const auto d = At(problem.block_dim);
  const int64_t from = index[d];
  int64_t end = from + rows;
  for (int64_t tap = 0; tap < p.kernel.dims[2 + d]; ++tap) {
    const int64_t first = p.window.padding_low[d] - tap * p.window.dilations[d];
    for (int64_t border : {first, first + p.input.dims[2 + d]})
      if (border > from) end = std::min(end, border);
  }
  return end - from;
}

void RowConv::RunRows(const Problem& problem, const Dims& index, int64_t rows_count, int64_t image, int64_t group,
                      const Sources& from, std::byte* result, std::byte* memory) const {
  const ConvolutionProblem& p = problem.p;
  const auto** rows = reinterpret_cast<const std::byte**>(memory + sums_bytes_);
  const auto** weights = reinterpret_cast<const std::byte**>(memory + sums_bytes_ + pointers_bytes_);
  std::size_t found = 0;
  for (int64_t o = 0; o < problem.outer_taps; ++o) {
    const Dims& tap = problem.outer_index[At(o)];
    int64_t input_row = 0;
    bool inside = true;
    for (std::size_t d = 0; d < tap.size(); ++d) {
      if (d == problem.along) continue;
      const int64_t at = index[d] * p.window.strides[d] + tap[d] * p.window.dilations[d] - p.window.padding_low[d];
      inside &= at >= 0 && at < p.input.dims[2 + d];
      input_row = input_row * p.input.dims[2 + d] + at;
    }
    for (int64_t c = 0; c < problem.channels && inside; ++c) {
      rows[found] = from.rows + (c * problem.input_rows + input_row) * problem.row_length * width_;
      int64_t weight = (c * problem.outer_taps + o) * problem.taps * problem.outputs;
      if (!problem.packs_kernel) {
        weight = c * p.kernel.strides[1];
        for (std::size_t d = 0; d < tap.size(); ++d) weight += tap[d] * p.kernel.strides[2 + d];
      }
      weights[found++] = from.kernel + weight * width_;
    }
  }
  RowConvSums sums{.shifts = problem.shifts, .features = problem.outputs};
  sums.length = (rows_count - 1) * problem.row_length + problem.length;
  sums.sums = memory, sums.sums_stride = SumsStride(problem, rows_count), sums.is_fresh = true;
  const auto together = static_cast<std::size_t>(std::max<int64_t>(1, kProductsInTurn / problem.taps));
  std::size_t done = 0;
  do {
    const std::size_t now = std::min(together, found - done);
    sums.rows = {rows + done, now};
    sums.weights = {weights + done, now};
    loops_.run(sums);
    sums.is_fresh = false;
    done += now;
  } while (done < found);
  int64_t at = p.result.offset + image * p.result.strides[0] + group * problem.outputs * p.result.strides[1];
  for (std::size_t d = 0; d < index.size(); ++d) at += index[d] * p.result.strides[2 + d];
  const int64_t step = p.result.strides[2 + problem.along];
  if (rows_count == 1) {
    MoveTile(width_, memory, {sums.sums_stride, 1}, result + at * width_, {p.result.strides[1], step}, problem.outputs,
             problem.length);
    return;
  }
  for (int64_t f = 0; f < problem.outputs; ++f)
    MoveTile(width_, memory + f * sums.sums_stride * width_, {problem.row_length, 1},
             result + (at + f * p.result.strides[1]) * width_, {p.result.strides[2 + At(problem.block_dim)], step},
             rows_count, problem.length);
}

// Block `block` of the rows of an image and a group. The block's dimension is the innermost of those of rows.
void RowConv::RunBlock(const Problem& problem, int64_t block, int64_t image, int64_t group, const Sources& from,
                       std::byte* result, std::byte* memory) const {
  const int64_t first = block % problem.blocks * problem.block_rows;
  Dims index = RowIndex(problem, problem.p.result.dims, block / problem.blocks * problem.block_extent + first);
  int64_t left = std::min(problem.block_rows, problem.block_extent - first);
  while (left > 0) {
    const int64_t now = RowsWithSameTaps(problem, index, left);
    RunRows(problem, index, now, image, group, from, result, memory);
    left -= now;
    if (left > 0) index[At(problem.block_dim)] += now;
  }
}

void RowConv::RunTask(const Problem& problem, int64_t task, const std::byte* input, const std::byte* kernel,
                      const std::byte* scratch, std::byte* result, std::byte* memory) const {
  const ConvolutionProblem& p = problem.p;
  const int64_t blocks = problem.result_rows / problem.block_extent * problem.blocks;
  const int64_t image_group = problem.is_alone ? task : task / blocks;
  const int64_t image = image_group / p.window.groups, group = image_group % p.window.groups;
  const int64_t channel = image * p.input.dims[1] + group * problem.channels;
  Sources from;
  from.kernel = problem.packs_kernel
                    ? scratch + problem.packed_kernel + group * KernelBytes(problem)
                    : kernel + (p.kernel.offset + group * problem.outputs * p.kernel.strides[0]) * width_;
  if (!problem.is_alone) {
    from.rows = scratch + problem.copy + channel * problem.input_rows * problem.row_length * width_;
    RunBlock(problem, task % blocks, image, group, from, result, memory);
    return;
  }
  std::byte* const copy = memory + worker_bytes_ - alone_bytes_;
  CopyGroup(problem, image, group, input, copy);
  from.rows = copy;
  for (int64_t block = 0; block < blocks; ++block) RunBlock(problem, block, image, group, from, result, memory);
}

void RowConv::Run(const std::byte* input, const std::byte* kernel, std::byte* result, ThreadPool& pool,
                  std::byte* scratch) const {
  const auto problem_of = [&](int64_t number, int64_t Problem::* first) -> const Problem& {
    return *std::prev(std::upper_bound(problems_.begin(), problems_.end(), number,
                                       [&](int64_t n, const Problem& p) { return n < p.*first; }));
  };
  pool.ParallelParts(packs_, 100.0 * static_cast<double>(packs_), [&](int64_t begin, int64_t end, int) {
    for (int64_t n = begin; n < end; ++n) {
      const Problem& problem = problem_of(n, &Problem::first_pack);
      const int64_t group = n - problem.first_pack;
      PackKernel(problem, group, kernel, scratch + problem.packed_kernel + group * KernelBytes(problem));
    }
  });
  pool.ParallelParts(copies_, copy_nanoseconds_, [&](int64_t begin, int64_t end, int) {
    for (int64_t n = begin; n < end && !IsInterrupted(); ++n) {
      const Problem& problem = problem_of(n, &Problem::first_copy);
      CopyRows(problem, n - problem.first_copy, input, scratch + problem.copy);
    }
  });
  pool.ParallelParts(tasks_, nanoseconds_, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t n = begin; n < end && !IsInterrupted(); ++n) {
      const Problem& problem = problem_of(n, &Problem::first_task);
      RunTask(problem, n - problem.first_task, input, kernel, scratch, result,
              scratch + workers_ + worker * worker_bytes_);
    }
  });
}

}  // namespace krafla::cpu
#endif
