// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/long_window_conv.h"

#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "base/index.h"
#include "base/interruption.h"
#include "cpu_fallback/kernels/move.h"
#include "cpu_fallback/kernels/unroll.h"
#include "krafla/shape.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/long_window_conv.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Products that are added in turn, before their sum is added to what was there.
inline constexpr int64_t kDepthTurns = 256;
// Sums that registers hold, beside two vectors of columns: of the 32 that AVX-512 and NEON have, or of 16.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM
inline constexpr int kDepthRows = 12;
#else
inline constexpr int kDepthRows = 6;
#endif
inline constexpr int kDepthVectors = 2;

template <class T, int kRows, int kVectors>
void SumDepth(const DepthSums& s) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V sums[kRows][kVectors];
  const auto clear = [&]() HWY_ATTR {
    KRAFLA_UNROLL(12)
    for (int r = 0; r < kRows; ++r) {
      KRAFLA_UNROLL(2)
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(d);
    }
  };
  const auto flush = [&]() HWY_ATTR {
    KRAFLA_UNROLL(12)
    for (int r = 0; r < kRows; ++r) {
      T* to = reinterpret_cast<T*>(s.totals) + r * s.totals_step;
      KRAFLA_UNROLL(2)
      for (int v = 0; v < kVectors; ++v, to += lanes) hn::StoreU(hn::Add(hn::LoadU(d, to), sums[r][v]), d, to);
    }
  };
  clear();
  int64_t turns = 0;
  for (const DepthRun& run : s.runs) {
    const T* rows = reinterpret_cast<const T*>(run.rows) + s.first_row;
    const T* columns = reinterpret_cast<const T*>(run.columns);
    for (int64_t left = run.count; left > 0;) {
      const int64_t now = std::min(left, kDepthTurns - turns);
      for (int64_t t = 0; t < now; ++t, rows += s.rows_step, columns += s.columns_step) {
        V values[kVectors];
        KRAFLA_UNROLL(2)
        for (int v = 0; v < kVectors; ++v) values[v] = hn::LoadU(d, columns + v * lanes);
        KRAFLA_UNROLL(12)
        for (int r = 0; r < kRows; ++r) {
          const V factor = hn::Set(d, rows[r]);
          KRAFLA_UNROLL(2)
          for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(factor, values[v], sums[r][v]);
        }
      }
      left -= now, turns += now;
      if (turns < kDepthTurns) continue;
      flush();
      clear();
      turns = 0;
    }
  }
  if (turns > 0) flush();
}
template <class T, int kRows>
void SumDepthOfRows(const DepthSums& s) {
  if (s.vectors == 2) SumDepth<T, kRows, 2>(s);
  else SumDepth<T, kRows, 1>(s);
}
// As many rows at once as there is code for.
template <class T>
void SumDepthOf(const DepthSums& whole) {
  DepthSums s = whole;
  for (int64_t left = whole.rows; left > 0; left -= s.rows) {
    if (left >= kDepthRows) {
      s.rows = kDepthRows;
      SumDepthOfRows<T, kDepthRows>(s);
    } else if (left >= 8) {
      s.rows = std::min(kDepthRows, 8);
      SumDepthOfRows<T, std::min(kDepthRows, 8)>(s);
    } else if (left >= 4) {
      s.rows = 4;
      SumDepthOfRows<T, 4>(s);
    } else if (left >= 2) {
      s.rows = 2;
      SumDepthOfRows<T, 2>(s);
    } else {
      s.rows = 1;
      SumDepthOfRows<T, 1>(s);
    }
    s.first_row += s.rows;
    s.totals += s.rows * s.totals_step * static_cast<int64_t>(sizeof(T));
  }
}

// One row by kColumns columns.
template <class T, int kColumns>
HWY_INLINE void DotColumns(const DepthDots& s, int64_t row, int64_t column) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t in_turn = 2 * lanes * kDepthTurns;
  T* totals = reinterpret_cast<T*>(s.totals) + row * s.totals_step + column;
  for (const DepthRun& run : s.runs) {
    const T* x = reinterpret_cast<const T*>(run.rows) + row * s.row_step;
    const T* y = reinterpret_cast<const T*>(run.columns) + column * s.column_step;
    for (int64_t begin = 0; begin < run.count; begin += in_turn) {
      const int64_t end = std::min(begin + in_turn, run.count);
      V sums[kColumns][2];
      KRAFLA_UNROLL(4)
      for (int c = 0; c < kColumns; ++c) sums[c][0] = sums[c][1] = hn::Zero(d);
      int64_t i = begin;
      for (; i + 2 * lanes <= end; i += 2 * lanes) {
        const V x0 = hn::LoadU(d, x + i), x1 = hn::LoadU(d, x + i + lanes);
        KRAFLA_UNROLL(4)
        for (int c = 0; c < kColumns; ++c) {
          const T* at = y + c * s.column_step + i;
          sums[c][0] = hn::MulAdd(x0, hn::LoadU(d, at), sums[c][0]);
          sums[c][1] = hn::MulAdd(x1, hn::LoadU(d, at + lanes), sums[c][1]);
        }
      }
      for (; i < end; i += lanes) {
        const auto left = static_cast<std::size_t>(std::min(lanes, end - i));
        const V x0 = hn::LoadN(d, x + i, left);
        KRAFLA_UNROLL(4)
        for (int c = 0; c < kColumns; ++c)
          sums[c][0] = hn::MulAdd(x0, hn::LoadN(d, y + c * s.column_step + i, left), sums[c][0]);
      }
      KRAFLA_UNROLL(4)
      for (int c = 0; c < kColumns; ++c) totals[c] += hn::ReduceSum(d, hn::Add(sums[c][0], sums[c][1]));
    }
  }
}
template <class T>
void DotDepth(const DepthDots& s) {
  for (int64_t row = 0; row < s.rows; ++row) {
    int64_t c = 0;
    for (; c + 4 <= s.columns; c += 4) DotColumns<T, 4>(s, row, c);
    if (s.columns - c == 3) DotColumns<T, 3>(s, row, c);
    else if (s.columns - c == 2) DotColumns<T, 2>(s, row, c);
    else if (s.columns - c == 1) DotColumns<T, 1>(s, row, c);
  }
}

DepthLoops FindDepthLoops(ElementType type) {
  if (type == ElementType::kF32)
    return {&SumDepthOf<float>, &DotDepth<float>, static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>())),
            kDepthVectors};
  if (type == ElementType::kF64)
    return {&SumDepthOf<double>, &DotDepth<double>, static_cast<int64_t>(hn::Lanes(hn::ScalableTag<double>())),
            kDepthVectors};
  return {};
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindDepthLoops);

namespace {

// Of the depth, what stays in the L2 cache while all positions go through it.
constexpr int64_t kChunkBytes = 1 << 19;
constexpr int64_t kLeastDepth = 32, kLeastRows = 8;
// Of so many products for each sum packing is worth it for any rows.
constexpr int64_t kGreatDepth = 4096, kFewLongSums = 256;
// Rows and columns of which each is read again for each of the others.
constexpr int64_t kMostDots = 32;

int64_t DepthOf(const ConvolutionProblem& p) { return SpatialElements(p.kernel) * p.kernel.dims[1]; }

// Whether vectors along the innermost taps are the better ones, if those lie side by side.
bool IsLongLast(const ConvolutionProblem& p, int64_t lanes) {
  const int64_t rows = p.input.dims[0], columns = p.kernel.dims[0];
  return p.window.dilations.back() == 1 && p.kernel.dims.back() >= 4 * lanes && rows * columns <= kMostDots &&
         DepthOf(p) >= kGreatDepth && (rows < kLeastRows || 2 * columns < lanes);
}
bool LiesAlongDepth(const TensorView& view) { return view.strides.back() == 1; }
bool IsAlongDepth(const ConvolutionProblem& p, int64_t lanes) {
  return IsLongLast(p, lanes) && LiesAlongDepth(p.input) && LiesAlongDepth(p.kernel);
}

// Whether there are rows and columns enough for vectors of columns.
bool HasManySums(const ConvolutionProblem& p, int64_t lanes) {
  return DepthOf(p) >= kLeastDepth && (p.input.dims[0] >= kLeastRows || LongWindowConv::AreFewSums(p)) &&
         2 * p.kernel.dims[0] >= lanes;
}

// The same convolution, of whose spatial dimensions the one with the most taps is the last.
ConvolutionProblem WithLongestLast(ConvolutionProblem p) {
  std::size_t longest = p.kernel.dims.size() - 1;
  for (std::size_t d = longest; d-- > 2;)
    if (p.window.dilations[d - 2] == 1 && p.kernel.dims[d] > p.kernel.dims[longest]) longest = d;
  for (TensorView* view : {&p.input, &p.kernel, &p.result}) {
    std::swap(view->dims[longest], view->dims.back());
    std::swap(view->strides[longest], view->strides.back());
  }
  ConvolutionWindow& w = p.window;
  for (Dims* of : {&w.strides, &w.dilations, &w.padding_low, &w.padding_high})
    std::swap((*of)[longest - 2], of->back());
  return p;
}

// As a LongWindowConv takes its dimensions: in the order that they have, or where nothing else fits with the longest
// last, along which both operands lie or are copied.
ConvolutionProblem InOrder(const ConvolutionProblem& p, int64_t lanes) {
  return IsAlongDepth(p, lanes) || HasManySums(p, lanes) ? p : WithLongestLast(p);
}

}  // namespace

bool LongWindowConv::AreFewSums(const ConvolutionProblem& p) {
  return p.input.dims[0] * p.kernel.dims[0] * SpatialElements(p.result) <= kFewLongSums && DepthOf(p) >= kGreatDepth;
}

bool LongWindowConv::Takes(std::span<const ConvolutionProblem> problems, ElementType type) {
  const DepthLoops loops = HWY_DYNAMIC_DISPATCH(FindDepthLoops)(type);
  if (loops.run == nullptr || problems.size() != 1) return false;
  const ConvolutionProblem& p = problems[0];
  if (p.window.groups != 1 || p.window.strides.empty() || p.input.type != type || p.kernel.type != type ||
      p.result.type != type)
    return false;
  const int64_t taps = SpatialElements(p.kernel), positions = SpatialElements(p.result);
  // Of fewer rows or columns, packing them is little work and registers would be empty.
  if (taps <= positions) return false;
  if (HasManySums(p, loops.lanes) || IsAlongDepth(p, loops.lanes)) return true;
  // Copies are worth it where vectors of columns would be less than half full.
  return 2 * p.kernel.dims[0] < loops.lanes && IsLongLast(InOrder(p, loops.lanes), loops.lanes);
}

void LongWindowConv::Place(Operand& operand, int64_t padded, int64_t& size) const {
  TensorView& view = operand.view;
  if (view.strides[0] == 1 && view.dims[0] == padded) return;
  operand.source = view;
  operand.copy = size;
  int64_t step = padded;
  view.offset = 0;
  view.strides[0] = 1;
  for (std::size_t d = view.dims.size(); d-- > 1;) {
    view.strides[d] = step;
    step *= view.dims[d];
  }
  size += RoundUp(step * width_, 64);
}

void LongWindowConv::PlaceAlongDepth(Operand& operand, int64_t& size) const {
  TensorView& view = operand.view;
  if (LiesAlongDepth(view)) return;
  operand.source = view;
  operand.copy = size;
  view.offset = 0;
  view.strides = RowMajorStrides(view.dims);
  // Rows that lie a power of two apart would share a few lines of the cache.
  constexpr int64_t kLine = 64;
  view.strides[0] = RoundUp(view.strides[0] * width_, 2 * kLine) / width_ + kLine / width_;
  size += RoundUp(view.dims[0] * view.strides[0] * width_, kLine);
}

LongWindowConv::LongWindowConv(const ConvolutionProblem& problem, ElementType type, int threads)
    : width_(StorageBytes(type)),
      loops_(HWY_DYNAMIC_DISPATCH(FindDepthLoops)(type)),
      p_(InOrder(problem, loops_.lanes)),
      is_along_depth_(IsAlongDepth(p_, loops_.lanes) || !HasManySums(p_, loops_.lanes)),
      input_{p_.input},
      kernel_{p_.kernel},
      rows_(problem.input.dims[0]),
      columns_(RoundUp(problem.kernel.dims[0], loops_.lanes)),
      positions_(SpatialElements(problem.result)) {
  int64_t size = 0;
  if (is_along_depth_) {
    PlaceAlongDepth(input_, size);
    PlaceAlongDepth(kernel_, size);
  } else {
    Place(input_, rows_, size);
    Place(kernel_, columns_, size);
  }
  outer_taps_ = Dims{p_.kernel.dims[1]};
  for (std::size_t d = 2; d + 1 < p_.kernel.dims.size(); ++d) outer_taps_.push_back(p_.kernel.dims[d]);
  for (int64_t d : outer_taps_) runs_ *= d;
  const int64_t taps = p_.kernel.dims.back();
  chunk_runs_ = std::clamp<int64_t>(kChunkBytes / ((rows_ + columns_) * taps * width_), 1, runs_);
  totals_ = size;
  size += RoundUp(positions_ * rows_ * columns_ * width_, 64);
  workers_ = size;
  worker_bytes_ = RoundUp(chunk_runs_ * static_cast<int64_t>(sizeof(DepthRun)), 64);
  scratch_bytes_ = size + worker_bytes_ * threads;
  task_nanoseconds_ = static_cast<double>(rows_ * columns_) * static_cast<double>(chunk_runs_ * taps) / 50;
}

const std::byte* LongWindowConv::Prepare(const Operand& operand, const std::byte* from, ThreadPool& pool,
                                         std::byte* scratch) const {
  if (operand.copy < 0) return from + operand.view.offset * width_;
  const TensorView &source = operand.source, &view = operand.view;
  std::byte* const to = scratch + operand.copy;
  const std::size_t last = source.dims.size() - 1;
  const int64_t lines = SpatialElements(source) * source.dims[1] / std::max<int64_t>(source.dims[last], 1);
  // Behind the first dimension, where that is the innermost one of the copy.
  const int64_t padding = view.strides[0] == 1 ? view.strides[last] - source.dims[0] : 0;
  pool.ParallelParts(
      lines, static_cast<double>(lines * source.dims[last] * source.dims[0]), [&](int64_t begin, int64_t end, int) {
        for (int64_t line = begin; line < end && !IsInterrupted(); ++line) {
          int64_t at = source.offset, out = 0, rest = line;
          for (std::size_t d = last; d-- > 1; rest /= source.dims[d]) {
            at += rest % source.dims[d] * source.strides[d];
            out += rest % source.dims[d] * view.strides[d];
          }
          MoveTile(width_, from + at * width_, {source.strides[last], source.strides[0]}, to + out * width_,
                   {view.strides[last], view.strides[0]}, source.dims[last], source.dims[0]);
          if (padding == 0) continue;
          for (int64_t i = 0; i < source.dims[last]; ++i)
            std::memset(to + (out + i * view.strides[last] + source.dims[0]) * width_, 0, At(padding * width_));
        }
      });
  return to;
}

std::size_t LongWindowConv::FindRuns(const Dims& at, int64_t begin, int64_t end, const std::byte* input,
                                     const std::byte* kernel, DepthRun* out) const {
  const ConvolutionWindow& w = p_.window;
  const std::size_t last = w.strides.size() - 1;
  const auto place = [&](std::size_t d, int64_t tap) {
    return at[d] * w.strides[d] + tap * w.dilations[d] - w.padding_low[d];
  };
  // The innermost taps that lie inside.
  const int64_t first = place(last, 0), extent = p_.input.dims[2 + last], taps = p_.kernel.dims[2 + last];
  const int64_t low = first >= 0 ? 0 : std::min(taps, CeilDiv(-first, w.dilations[last]));
  const int64_t high = first >= extent ? low : std::clamp((extent - 1 - first) / w.dilations[last] + 1, low, taps);
  if (low == high) return 0;
  const int64_t input_first = place(last, low) * input_.view.strides[2 + last],
                kernel_first = low * kernel_.view.strides[2 + last];
  Dims tap(outer_taps_.size(), 0);
  int64_t rest = begin;
  for (std::size_t d = tap.size(); d-- > 0; rest /= outer_taps_[d]) tap[d] = rest % outer_taps_[d];
  std::size_t found = 0;
  for (int64_t run = begin; run < end; ++run, NextIndex({tap.data(), tap.size()}, outer_taps_)) {
    int64_t from = input_first + tap[0] * input_.view.strides[1],
            columns = kernel_first + tap[0] * kernel_.view.strides[1];
    bool inside = true;
    for (std::size_t d = 0; d < last; ++d) {
      const int64_t line = place(d, tap[1 + d]);
      inside &= line >= 0 && line < p_.input.dims[2 + d];
      from += line * input_.view.strides[2 + d];
      columns += tap[1 + d] * kernel_.view.strides[2 + d];
    }
    if (inside) out[found++] = {input + from * width_, kernel + columns * width_, high - low};
  }
  return found;
}

void LongWindowConv::RunTask(int64_t task, int64_t begin, int64_t end, const std::byte* input, const std::byte* kernel,
                             std::byte* totals, std::byte* memory) const {
  const std::size_t last = p_.window.strides.size() - 1;
  Dims at(last + 1, 0);
  int64_t rest = task;
  for (std::size_t d = at.size(); d-- > 0; rest /= p_.result.dims[2 + d]) at[d] = rest % p_.result.dims[2 + d];
  auto* const runs = reinterpret_cast<DepthRun*>(memory);
  const std::size_t found = FindRuns(at, begin, end, input, kernel, runs);
  if (is_along_depth_) {
    loops_.dots({.runs = {runs, found},
                 .rows = rows_,
                 .row_step = input_.view.strides[0],
                 .columns = kernel_.view.dims[0],
                 .column_step = kernel_.view.strides[0],
                 .totals = totals + task * rows_ * columns_ * width_,
                 .totals_step = columns_});
    return;
  }
  const int64_t most = loops_.most_vectors * loops_.lanes;
  DepthSums sums;
  sums.totals_step = columns_;
  sums.rows_step = p_.window.dilations[last] * input_.view.strides[2 + last];
  sums.columns_step = kernel_.view.strides[2 + last];
  // Columns of several runs in turn, which all rows go through while they are near.
  for (int64_t column = 0; column < columns_; column += most) {
    sums.vectors = std::min(most, columns_ - column) / loops_.lanes;
    sums.runs = {runs, found};
    sums.rows = rows_;
    sums.totals = totals + (task * rows_ * columns_ + column) * width_;
    loops_.run(sums);
    for (std::size_t r = 0; r < found; ++r) runs[r].columns += most * width_;
  }
}

void LongWindowConv::Run(const std::byte* input, const std::byte* kernel, std::byte* result, ThreadPool& pool,
                         std::byte* scratch) const {
  const std::byte* const rows = Prepare(input_, input, pool, scratch);
  const std::byte* const columns = Prepare(kernel_, kernel, pool, scratch);
  std::byte* const totals = scratch + totals_;
  std::memset(totals, 0, At(positions_ * rows_ * columns_ * width_));
  for (int64_t begin = 0; begin < runs_ && !IsInterrupted(); begin += chunk_runs_) {
    pool.ParallelParts(positions_, task_nanoseconds_ * static_cast<double>(positions_),
                       [&](int64_t first, int64_t end, int worker) {
                         for (int64_t task = first; task < end && !IsInterrupted(); ++task)
                           RunTask(task, begin, std::min(begin + chunk_runs_, runs_), rows, columns, totals,
                                   scratch + workers_ + worker * worker_bytes_);
                       });
  }
  const TensorView& view = p_.result;
  for (int64_t position = 0; position < positions_; ++position) {
    int64_t at = view.offset, rest = position;
    for (std::size_t d = view.dims.size(); d-- > 2; rest /= view.dims[d]) at += rest % view.dims[d] * view.strides[d];
    MoveTile(width_, totals + position * rows_ * columns_ * width_, {columns_, 1}, result + at * width_,
             {view.strides[0], view.strides[1]}, rows_, view.dims[1]);
  }
}

}  // namespace krafla::cpu
#endif
