// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/conv_gemm.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checked_math.h"
#include "base/index.h"
#include "cpu_fallback/kernels/move.h"

namespace krafla::cpu {

namespace {

constexpr int64_t kChunkDepth = 256;  // products that are summed before they are added to what was there
constexpr int64_t kTaskRows = 64;

}  // namespace

bool ConvGemm::Takes(std::span<const ConvolutionProblem> problems, ElementType type) {
  using enum ElementType;
  if (type != kF32 && type != kF64 && type != kS32 && type != kU32 && type != kS64 && type != kU64) return false;
  for (const ConvolutionProblem& p : problems)
    if (p.window.strides.size() > kMostSpatial || p.input.type != type || p.kernel.type != type ||
        p.result.type != type)
      return false;
  return true;
}

ConvGemm::ConvGemm(std::span<const ConvolutionProblem> problems, ElementType type, int threads)
    : width_(StorageBytes(type)), tile_(FindPointerTile(type)) {
  for (const ConvolutionProblem& p : problems) {
    Problem problem{.p = p};
    problem.channels = p.kernel.dims[1];
    problem.outputs = p.kernel.dims[0] / p.window.groups;
    problem.taps = SpatialElements(p.kernel);
    problem.positions = p.result.dims[0];
    for (std::size_t d = 2; d < p.result.dims.size(); ++d) problem.positions *= p.result.dims[d];
    problem.row_tasks = CeilDiv(problem.positions, kTaskRows);
    problem.images_first = p.input.strides[0] < p.input.strides.back() * p.window.strides.back();
    const int64_t tap_step = p.window.dilations.back() * p.input.strides.back();
    if (problem.channels == 1 || tap_step == problem.channels * p.input.strides[1])
      problem.run_taps = p.kernel.dims.back();
    problem.writes_there = p.result.strides[1] == 1;
    problem.packed_kernel = kernels_bytes_;
    problem.first_pack = packs_;
    problem.first_task = tasks_;
    packs_ += p.window.groups;
    tasks_ += p.window.groups * problem.row_tasks;
    kernels_bytes_ += p.window.groups * KernelBytes(problem);
    sums_bytes_ = std::max(sums_bytes_, RoundUp(kPointerRows * columns_of(problem) * width_, 64));
    flops_ += 2.0 * static_cast<double>(problem.positions * p.window.groups) *
              static_cast<double>(problem.taps * problem.channels) * static_cast<double>(columns_of(problem));
    problems_.push_back(std::move(problem));
  }
  // Sums, positions, segments, gathered rows, zeros.
  worker_bytes_ = sums_bytes_ + RoundUp(kTaskRows * static_cast<int64_t>(sizeof(Position)), 64) +
                  kChunkDepth * static_cast<int64_t>(sizeof(RowSegment)) + kChunkDepth * kPointerRows * width_ +
                  kChunkDepth * width_;
  scratch_bytes_ = kernels_bytes_ + worker_bytes_ * threads;
}

int64_t ConvGemm::columns_of(const Problem& problem) const { return RoundUp(problem.outputs, tile_.lanes); }
int64_t ConvGemm::KernelBytes(const Problem& problem) const {
  return RoundUp(columns_of(problem) * problem.taps * problem.channels * width_, 64);
}

template <class F>
void ConvGemm::ForEachChunk(const Problem& problem, F&& f) const {
  const int64_t taps = std::max<int64_t>(1, kChunkDepth / problem.channels),
                channels = std::min(problem.channels, kChunkDepth);
  for (int64_t tap = 0; tap < problem.taps; tap += taps)
    for (int64_t c = 0; c < problem.channels; c += channels)
      f(Chunk{tap, std::min(taps, problem.taps - tap), c, std::min(channels, problem.channels - c)});
}

template <class F>
void ConvGemm::ForEachColumns(const Problem& problem, F&& f) const {
  int64_t vectors = CeilDiv(problem.outputs, tile_.lanes);
  for (int64_t column = 0; column < problem.outputs;) {
    // Three vectors at a time; four are two and two.
    const int64_t now = vectors == 4 ? 2 : std::min<int64_t>(vectors, 3);
    f(column, std::min(now * tile_.lanes, problem.outputs - column), now);
    column += now * tile_.lanes;
    vectors -= now;
  }
}

// Chunk after chunk, columns after columns: [taps][channels][columns], padded with zeros to whole vectors.
void ConvGemm::PackKernel(const Problem& problem, int64_t group, const std::byte* kernel, std::byte* to) const {
  const TensorView& view = problem.p.kernel;
  ForEachChunk(problem, [&](const Chunk& chunk) {
    ForEachColumns(problem, [&](int64_t column, int64_t columns, int64_t vectors) {
      const int64_t step = vectors * tile_.lanes;
      if (columns < step) std::memset(to, 0, static_cast<std::size_t>(chunk.taps * chunk.channels * step * width_));
      for (int64_t t = 0; t < chunk.taps; ++t) {
        int64_t rest = chunk.first_tap + t;
        int64_t at =
            view.offset + (group * problem.outputs + column) * view.strides[0] + chunk.first_channel * view.strides[1];
        for (std::size_t d = view.dims.size(); d-- > 2; rest /= view.dims[d])
          at += rest % view.dims[d] * view.strides[d];
        MoveTile(width_, kernel + at * width_, {view.strides[1], view.strides[0]}, to, {step, 1}, chunk.channels,
                 columns);
        to += chunk.channels * step * width_;
      }
    });
  });
}

void ConvGemm::FindPositions(const Problem& problem, int64_t group, int64_t first,
                             std::span<Position> positions) const {
  const ConvolutionProblem& p = problem.p;
  const std::size_t spatial = p.window.strides.size();
  const int64_t input = p.input.offset + group * problem.channels * p.input.strides[1];
  const int64_t result = p.result.offset + group * problem.outputs * p.result.strides[1];
  // The position in turn: its image, and where it lies in each spatial dimension.
  int64_t image = 0, at[kMostSpatial] = {}, rest = first;
  if (problem.images_first) image = rest % p.result.dims[0], rest /= p.result.dims[0];
  for (std::size_t d = spatial; d-- > 0; rest /= p.result.dims[2 + d]) at[d] = rest % p.result.dims[2 + d];
  if (!problem.images_first) image = rest;
  const auto next = [&] {
    if (problem.images_first) {
      if (++image < p.result.dims[0]) return;
      image = 0;
    }
    for (std::size_t d = spatial; d-- > 0; at[d] = 0)
      if (++at[d] < p.result.dims[2 + d]) return;
    ++image;
  };
  for (Position& position : positions) {
    position.input = input + image * p.input.strides[0];
    position.result = result + image * p.result.strides[0];
    position.sees_all = true;
    for (std::size_t d = 0; d < spatial; ++d) {
      const int64_t place = at[d] * p.window.strides[d] - p.window.padding_low[d];
      position.at[d] = place;
      position.input += place * p.input.strides[2 + d];
      position.result += at[d] * p.result.strides[2 + d];
      position.sees_all &=
          place >= 0 && place + (p.kernel.dims[2 + d] - 1) * p.window.dilations[d] < p.input.dims[2 + d];
    }
    next();
  }
}

std::size_t ConvGemm::FindWholeRows(const Problem& problem, std::span<const Position> rows, const Chunk& chunk,
                                    int64_t run, const std::byte* input, RowSegment* segments) const {
  const TensorView &view = problem.p.input, &kernel = problem.p.kernel;
  const ConvolutionWindow& window = problem.p.window;
  const std::byte* lines[kPointerRows];
  for (std::size_t r = 0; r < std::size(lines); ++r) lines[r] = input + rows[r < rows.size() ? r : 0].input * width_;
  const int64_t channel_stride = view.strides[1];
  const bool is_line = run > 1 && chunk.channels == 1;
  int64_t index[kMostSpatial], rest = chunk.first_tap;
  for (std::size_t d = window.strides.size(); d-- > 0; rest /= kernel.dims[2 + d]) index[d] = rest % kernel.dims[2 + d];
  const int64_t count = chunk.taps / run;
  for (int64_t t = 0; t < count; ++t) {
    int64_t moved = chunk.first_channel * channel_stride;
    for (std::size_t d = 0; d < window.strides.size(); ++d)
      moved += index[d] * window.dilations[d] * view.strides[2 + d];
    RowSegment& segment = segments[t];
    segment.number = t;
    segment.stride = is_line ? window.dilations.back() * view.strides.back() : chunk.channels == 1 ? 1 : channel_stride;
    for (std::size_t r = 0; r < std::size(lines); ++r) segment.rows[r] = lines[r] + moved * width_;
    std::size_t d = window.strides.size() - 1;
    for (index[d] += run; index[d] == kernel.dims[2 + d] && d > 0; ++index[--d]) index[d] = 0;
  }
  return At(count);
}

// Channels are read where they lie where all rows see the tap, and with zeros in the place of rows that do not where
// they are dense; else they are gathered.
std::size_t ConvGemm::FindRows(const Problem& problem, std::span<const Position> rows, const Chunk& chunk,
                               const std::byte* input, RowSegment* segments, std::byte* gathered,
                               const std::byte* zeros) const {
  const TensorView& view = problem.p.input;
  const ConvolutionWindow& window = problem.p.window;
  const std::size_t spatial = window.strides.size();
  const int64_t channel_stride = view.strides[1];
  const bool dense = channel_stride == 1 || chunk.channels == 1;
  // One position in several images: what one sees all see.
  const bool together =
      std::ranges::all_of(rows, [&](const Position& row) { return std::ranges::equal(row.at, rows[0].at); });
  int64_t shift[kMostSpatial], index[kMostSpatial], rest = chunk.first_tap;
  for (std::size_t d = spatial; d-- > 0; rest /= problem.p.kernel.dims[2 + d]) {
    index[d] = rest % problem.p.kernel.dims[2 + d];
    shift[d] = index[d] * window.dilations[d];
  }
  std::size_t found = 0;
  for (int64_t t = 0; t < chunk.taps; ++t) {
    int64_t moved = chunk.first_channel * channel_stride;
    for (std::size_t d = 0; d < spatial; ++d) moved += shift[d] * view.strides[2 + d];
    const std::byte* from = input + moved * width_;
    RowSegment& segment = segments[found];
    segment.number = t;
    segment.stride = dense ? 1 : channel_stride;
    std::size_t inside = 0;
    bool in = true;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      if (r == 0 || !together) {
        in = true;
        for (std::size_t d = 0; d < spatial; ++d)
          in &= static_cast<uint64_t>(rows[r].at[d] + shift[d]) < static_cast<uint64_t>(view.dims[2 + d]);
      }
      segment.rows[r] = in ? from + rows[r].input * width_ : zeros;
      inside += in;
    }
    for (std::size_t d = spatial; d-- > 0;) {
      shift[d] += window.dilations[d];
      if (++index[d] < problem.p.kernel.dims[2 + d]) break;
      index[d] = shift[d] = 0;
    }
    if (inside == 0) continue;
    ++found;
    if (inside < rows.size() && !dense) {
      segment.stride = 1;
      for (std::size_t r = 0; r < rows.size(); ++r, gathered += chunk.channels * width_) {
        if (segment.rows[r] == zeros) continue;
        MoveTile(width_, static_cast<const std::byte*>(segment.rows[r]), {0, channel_stride}, gathered, {0, 1}, 1,
                 chunk.channels);
        segment.rows[r] = gathered;
      }
    }
    // Rows that nobody asks for are computed and not stored.
    for (std::size_t r = rows.size(); r < kPointerRows; ++r) segment.rows[r] = segment.rows[0];
  }
  return found;
}

void ConvGemm::RunTask(const Problem& problem, int64_t task, const std::byte* input, std::byte* result,
                       const std::byte* scratch, std::byte* memory) const {
  const ConvolutionProblem& p = problem.p;
  const int64_t group = task / problem.row_tasks, first_row = task % problem.row_tasks * kTaskRows;
  const int64_t count = std::min(kTaskRows, problem.positions - first_row), stride = columns_of(problem);
  const auto take = [&](int64_t bytes) { return std::exchange(memory, memory + RoundUp(bytes, 64)); };
  std::byte* sums = take(sums_bytes_);
  Position* rows = reinterpret_cast<Position*>(take(kTaskRows * static_cast<int64_t>(sizeof(Position))));
  RowSegment* segments = reinterpret_cast<RowSegment*>(take(kChunkDepth * static_cast<int64_t>(sizeof(RowSegment))));
  std::byte* gathered = take(kChunkDepth * kPointerRows * width_);
  std::byte* zeros = take(kChunkDepth * width_);
  std::memset(zeros, 0, static_cast<std::size_t>(kChunkDepth * width_));
  FindPositions(problem, group, first_row, {rows, At(count)});
  for (int64_t r = 0; r < count; r += kPointerRows) {
    const int64_t now = std::min(kPointerRows, count - r);
    const std::span<const Position> group_rows(rows + r, At(now));
    const bool sees_all = std::ranges::all_of(group_rows, &Position::sees_all);
    // Positions one after the other in the result are summed there.
    std::byte* to = sums;
    int64_t to_stride = stride;
    const int64_t apart = now > 1 ? rows[r + 1].result - rows[r].result : 0;
    const bool is_even = std::ranges::adjacent_find(group_rows, [&](const Position& a, const Position& b) {
                           return b.result - a.result != apart;
                         }) == group_rows.end();
    const bool writes_there = problem.writes_there && is_even;
    if (writes_there) to = result + rows[r].result * width_, to_stride = apart;
    const std::byte* kernel = scratch + problem.packed_kernel + group * KernelBytes(problem);
    ForEachChunk(problem, [&](const Chunk& chunk) {
      const bool is_run = chunk.taps % problem.run_taps == 0 && chunk.first_tap % problem.run_taps == 0;
      const int64_t run = sees_all && is_run ? problem.run_taps : 1;
      const std::size_t found = sees_all ? FindWholeRows(problem, group_rows, chunk, run, input, segments)
                                         : FindRows(problem, group_rows, chunk, input, segments, gathered, zeros);
      ForEachColumns(problem, [&](int64_t column, int64_t columns, int64_t vectors) {
        tile_.run({segments, found}, run * chunk.channels, kernel, vectors, now, columns, to + column * width_,
                  to_stride, chunk.first_tap + chunk.first_channel > 0);
        kernel += chunk.taps * chunk.channels * vectors * tile_.lanes * width_;
      });
    });
    if (writes_there) continue;
    for (int64_t k = 0; k < now;) {
      // Positions one after the other in the result.
      int64_t run = 1;
      const int64_t step = k + 1 < now ? rows[r + k + 1].result - rows[r + k].result : 0;
      while (k + run < now && rows[r + k + run].result - rows[r + k + run - 1].result == step) ++run;
      MoveTile(width_, sums + k * stride * width_, {stride, 1}, result + rows[r + k].result * width_,
               {step, p.result.strides[1]}, run, problem.outputs);
      k += run;
    }
  }
}

void ConvGemm::Run(const std::byte* input, const std::byte* kernel, std::byte* result, ThreadPool& pool,
                   std::byte* scratch) const {
  const auto problem_of = [&](int64_t number, int64_t Problem::* first) -> const Problem& {
    return *std::prev(std::upper_bound(problems_.begin(), problems_.end(), number,
                                       [&](int64_t n, const Problem& p) { return n < p.*first; }));
  };
  pool.ParallelParts(packs_, static_cast<double>(kernels_bytes_) / 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t n = begin; n < end; ++n) {
      const Problem& problem = problem_of(n, &Problem::first_pack);
      const int64_t group = n - problem.first_pack;
      PackKernel(problem, group, kernel, scratch + problem.packed_kernel + group * KernelBytes(problem));
    }
  });
  pool.ParallelParts(tasks_, flops_ / 30, [&](int64_t begin, int64_t end, int worker) {
    std::byte* memory = scratch + kernels_bytes_ + worker * worker_bytes_;
    for (int64_t n = begin; n < end; ++n) {
      const Problem& problem = problem_of(n, &Problem::first_task);
      RunTask(problem, n - problem.first_task, input, result, scratch, memory);
    }
  });
}

}  // namespace krafla::cpu
