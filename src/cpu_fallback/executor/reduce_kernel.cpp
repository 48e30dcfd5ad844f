// SPDX-License-Identifier: Apache-2.0
// The runs of a reduction: tiles of rows, or chunks of the elements of few rows, to the threads.
#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "base/checked_math.h"
#include "base/index.h"
#include "base/interruption.h"
#include "cpu_fallback/executor/long_sum.h"
#include "cpu_fallback/executor/reduce_run.h"
#include "cpu_fallback/kernels/long_sums.h"
#include "cpu_fallback/kernels/move.h"
#include "cpu_fallback/kernels/reduce_ops.h"

namespace krafla::cpu {

using plan::ElementProgram;
using plan::NodeOp;
using plan::ReduceStage;
using plan::Reduction;

namespace {

template <class T>
bool HasNan(const std::byte* values, int64_t n) {
  const T* const from = reinterpret_cast<const T*>(values);
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += from[i] != from[i];
  return count > 0;
}

// Whether groups of the values may be combined first, though the combiner takes them in turn.
bool AreOrdered(const CompiledReduction& r, const std::byte* values, int64_t n) {
  if (r.ordered == ElementType::kF32) return !HasNan<float>(values, n);
  return r.ordered == ElementType::kF64 && !HasNan<double>(values, n);
}

}  // namespace

void ReduceRun::Start(Worker& worker, std::byte* memory, std::span<std::byte* const> bindings) const {
  worker.memory = memory;
  worker.bindings = bindings;
  worker.origin.resize(row_rank_ + elements_.rank());
  for (const CompiledStage& stage : stages_) {
    stage.program.Start(memory + stage.frame, bindings);
    if (stage.row_value_count > 0) stage.row_values.Start(memory + stage.row_values_frame, bindings);
    for (const CompiledReduction& r : stage.reductions) {
      if (r.ops.rows == nullptr && r.products.rows == nullptr) r.combiner.Start(memory + r.combiner_frame, bindings);
      r.init.Start(memory + init_frame_, bindings);
      r.init.RunTile(memory + init_frame_, {}, 1, 1);
      for (std::size_t v = 0; v < r.values.size(); ++v) {
        const std::byte* from = r.init.ResultValue(memory + init_frame_, v).data;
        std::byte* to = memory + initials_ + 8 * (r.first_param + static_cast<int>(v));
        if (r.narrow != nullptr) r.narrow(from, to, 1);
        else std::memcpy(to, from, static_cast<std::size_t>(r.values[v].width));
      }
    }
  }
}

void ReduceRun::SeekRow(Worker& worker, int64_t row_tile) const {
  rows_.Seek(row_tile, worker.row_tile);
  std::copy(worker.row_tile.origin.begin(), worker.row_tile.origin.end(), worker.origin.begin());
  worker.lanes = LanesOf(worker.row_tile);
  for (std::size_t i = 0; i < array_places_.size(); ++i) {
    std::byte* const base = arrays_->BaseOf(i, worker.memory + array_places_[i], worker.row_tile.origin);
    for (const CompiledStage& stage : stages_)
      if (stage.scope == ReduceStage::Scope::kElement)
        stage.program.SetBuffer(worker.memory + stage.frame, arrays_->first_buffer() + static_cast<int>(i), base);
  }
}

const void* const* ReduceRun::Params(const Worker& worker, const CompiledStage& stage) const {
  const void** pointers = reinterpret_cast<const void**>(worker.memory + pointers_);
  for (int p : stage.params) pointers[p] = Accumulator(worker, p);
  return pointers;
}

void ReduceRun::InitialValues(const Worker& worker, const CompiledReduction& r, std::byte* const* to) const {
  for (std::size_t v = 0; v < r.values.size(); ++v)
    Fill(r.values[v].width, worker.memory + initials_ + 8 * (r.first_param + static_cast<int>(v)), to[v], worker.lanes);
}

void ReduceRun::Combine(const Worker& worker, const CompiledReduction& r, int64_t n, std::byte* const* accumulators,
                        const std::byte* const* values) const {
  if (r.ops.columns != nullptr) {
    r.ops.columns(values[0], {}, 1, n, accumulators[0]);
    return;
  }
  if (r.products.columns != nullptr) {
    r.products.columns({values[0], values[1]}, 1, n, {accumulators[0], accumulators[1]});
    return;
  }
  if (r.arg_columns != nullptr) {
    r.arg_columns(values[0], values[1], 1, n, accumulators[0], accumulators[1]);
    return;
  }
  const void* params[2 * kMaxReducedValues];
  const std::size_t count = r.values.size();
  for (std::size_t v = 0; v < count; ++v) params[v] = accumulators[v], params[count + v] = values[v];
  std::byte* frame = worker.memory + r.combiner_frame;
  r.combiner.RunTile(frame, {}, 1, n, params);
  // Results may be params themselves, another accumulator's too: collect before writing.
  std::byte* temporary = worker.memory + temporaries_;
  const int64_t step = temporary_bytes_;
  for (std::size_t v = 0; v < count; ++v) {
    const BlockProgram::Value value = r.combiner.ResultValue(frame, v);
    std::byte* at = temporary + static_cast<int64_t>(v) * step;
    if (value.is_uniform) Fill(r.values[v].width, value.data, at, n);
    else std::memcpy(at, value.data, static_cast<std::size_t>(n * r.values[v].width));
  }
  for (std::size_t v = 0; v < count; ++v)
    std::memcpy(accumulators[v], temporary + static_cast<int64_t>(v) * step,
                static_cast<std::size_t>(n * r.values[v].width));
}

// One accumulator a value and row, and n new ones in each.
void ReduceRun::CombineRows(const Worker& worker, const CompiledReduction& r, int64_t rows, int64_t n,
                            std::byte* const* accumulators, const std::byte* const* values) const {
  if (r.ops.rows != nullptr) {
    r.ops.rows(values[0], rows, n, accumulators[0]);
    return;
  }
  if (n == 0) return;
  if (r.products.rows != nullptr) {
    r.products.rows({values[0], values[1]}, rows, n, {accumulators[0], accumulators[1]});
    return;
  }
  if (r.arg_extremum != nullptr) {
    const auto take = [&](int64_t row) {
      return r.arg_extremum(values[0] + row * n * r.values[0].width, values[1] + row * n * r.values[1].width, n,
                            accumulators[0] + row * r.values[0].width, accumulators[1] + row * r.values[1].width);
    };
    for (int64_t row = 0; row < rows; ++row) {
      if (take(row)) continue;
      // What a NaN does is the combiner's.
      std::byte* const to[] = {accumulators[0] + row * r.values[0].width, accumulators[1] + row * r.values[1].width};
      const std::byte* const from[] = {values[0] + row * n * r.values[0].width,
                                       values[1] + row * n * r.values[1].width};
      CombinePairwise(worker, r, 1, n, to, from);
    }
    return;
  }
  if (r.in_turn && !AreOrdered(r, values[0], rows * n)) CombineInTurn(worker, r, rows, n, accumulators, values);
  else CombinePairwise(worker, r, rows, n, accumulators, values);
}

void ReduceRun::CombineInTurn(const Worker& worker, const CompiledReduction& r, int64_t rows, int64_t n,
                              std::byte* const* accumulators, const std::byte* const* values) const {
  std::byte* to[kMaxReducedValues];
  const std::byte* from[kMaxReducedValues];
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < n; ++i) {
      for (std::size_t v = 0; v < r.values.size(); ++v) {
        to[v] = accumulators[v] + row * r.values[v].width;
        from[v] = values[v] + (row * n + i) * r.values[v].width;
      }
      Combine(worker, r, 1, to, from);
    }
}

// Neighbours are combined until one is left, so that the order stays. While their number is even, those of all rows are
// combined as one array.
void ReduceRun::CombinePairwise(const Worker& worker, const CompiledReduction& r, int64_t rows, int64_t n,
                                std::byte* const* accumulators, const std::byte* const* values) const {
  const int64_t step = temporary_bytes_;
  std::byte* base = worker.memory + temporaries_ + max_values_ * step;
  std::byte *left[kMaxReducedValues], *right[kMaxReducedValues];
  for (std::size_t v = 0; v < r.values.size(); ++v) {
    left[v] = base + static_cast<int64_t>(v) * step;
    right[v] = base + static_cast<int64_t>(r.values.size() + v) * step;
  }
  const std::byte* from[kMaxReducedValues];
  std::copy(values, values + r.values.size(), from);
  while (n > 1) {
    const int64_t pairs = n / 2, odd = n % 2;
    for (std::size_t v = 0; v < r.values.size(); ++v) {
      const int width = r.values[v].width;
      // Of an odd number each row's last one stays as it is, behind the pairs.
      const int64_t lines = odd == 0 ? 1 : rows, each = odd == 0 ? rows * pairs : pairs;
      MoveTile(width, from[v] + width, {n, 2}, right[v], {pairs, 1}, lines, each);
      if (odd != 0)
        MoveTile(width, from[v] + (n - 1) * width, {0, n}, right[v] + rows * pairs * width, {0, 1}, 1, rows);
      MoveTile(width, from[v], {n, 2}, left[v], {pairs, 1}, lines, each);
    }
    Combine(worker, r, rows * pairs, left, right);
    for (std::size_t v = 0; v < r.values.size(); ++v) {
      const int width = r.values[v].width;
      from[v] = left[v];
      if (odd == 0) continue;
      // Combined ones and the one left over, row by row.
      std::byte* together = worker.memory + temporaries_ + static_cast<int64_t>(v) * step;
      MoveTile(width, left[v], {pairs, 1}, together, {pairs + 1, 1}, rows, pairs);
      MoveTile(width, right[v] + rows * pairs * width, {0, 1}, together + pairs * width, {0, pairs + 1}, 1, rows);
      std::memcpy(left[v], together, static_cast<std::size_t>(rows * (pairs + 1) * width));
    }
    n = pairs + odd;
  }
  for (std::size_t v = 0; v < r.values.size(); ++v)
    if (from[v] != right[v]) std::memcpy(right[v], from[v], static_cast<std::size_t>(rows * r.values[v].width));
  Combine(worker, r, rows, accumulators, right);
}

// Of several arrays that lie so far apart one, element by element.
const std::byte* ReduceRun::FoldPlanes(const Worker& worker, const CompiledReduction& r, int64_t elements,
                                       const std::byte* from) const {
  const int width = r.values[0].width;
  std::byte* to = worker.memory + temporaries_;
  std::memcpy(to, from, static_cast<std::size_t>(elements * width));
  r.ops.columns(from + plane_stride_ * width, {worker.element_tile.planes - 1, plane_stride_}, 1, elements, to);
  return to;
}

void ReduceRun::FoldTile(const Worker& worker, const CompiledStage& stage, const CompiledReduction& r, int64_t rows,
                         int64_t columns, bool fresh, std::byte* const* to) const {
  const std::byte* frame = worker.memory + stage.frame;
  const std::size_t count = r.values.size();
  const int64_t step = temporary_bytes_;
  const std::byte* values[kMaxReducedValues];
  for (std::size_t v = 0; v < count; ++v) {
    const BlockProgram::Value value = stage.program.ResultValue(frame, static_cast<std::size_t>(r.values[v].result));
    values[v] = value.data;
    if (value.is_uniform && rows * columns > 1) {
      std::byte* spread = worker.memory + temporaries_ + (3 * max_values_ + static_cast<int64_t>(v)) * step;
      Fill(r.values[v].width, value.data, spread, rows * columns);
      values[v] = spread;
    }
  }
  auto advance = [&](int64_t elements) {
    for (std::size_t v = 0; v < count; ++v) values[v] += elements * r.values[v].width;
  };
  auto copy = [&](std::byte* const* target, int64_t n) {
    for (std::size_t v = 0; v < count; ++v)
      std::memcpy(target[v], values[v], static_cast<std::size_t>(n * r.values[v].width));
  };
  switch (layout_) {
    case ReduceLayout::kRows:
      if (fresh) copy(to, worker.lanes);
      else Combine(worker, r, worker.lanes, to, values);
      break;
    case ReduceLayout::kRowsByElements: {
      RowPlanes planes{worker.element_tile.planes, plane_stride_};
      if (fresh) {
        copy(to, columns);
        if (planes.count > 1)
          r.ops.columns(values[0] + plane_stride_ * r.values[0].width, {planes.count - 1, plane_stride_}, rows, columns,
                        to[0]);
        planes.count = 1;
        advance(columns), --rows;
      }
      if (r.ops.columns != nullptr) {
        r.ops.columns(values[0], planes, rows, columns, to[0]);
      } else if (r.products.columns != nullptr) {
        r.products.columns({values[0], values[1]}, rows, columns, {to[0], to[1]});
      } else if (r.arg_columns != nullptr) {
        r.arg_columns(values[0], values[1], rows, columns, to[0], to[1]);
      } else {
        for (int64_t i = 0; i < rows; ++i, advance(columns)) Combine(worker, r, columns, to, values);
      }
      break;
    }
    case ReduceLayout::kElements: {
      int64_t n = rows * columns;
      if (fresh) copy(to, 1), advance(1), --n;
      CombineRows(worker, r, 1, n, to, values);
      break;
    }
    case ReduceLayout::kElementsByRows: {
      if (worker.element_tile.planes > 1) values[0] = FoldPlanes(worker, r, rows * columns, values[0]);
      if (!fresh) {
        CombineRows(worker, r, rows, columns, to, values);
        break;
      }
      std::byte* lane[kMaxReducedValues];
      std::copy(to, to + count, lane);
      for (int64_t i = 0; i < rows; ++i) {
        copy(lane, 1), advance(1);
        CombineRows(worker, r, 1, columns - 1, lane, values);
        advance(columns - 1);
        for (std::size_t v = 0; v < count; ++v) lane[v] += r.values[v].width;
      }
      break;
    }
  }
}

void ReduceRun::CombineStage(const Worker& worker, const CompiledStage& stage, std::byte* const* accumulators,
                             const std::byte* const* values) const {
  for (const CompiledReduction& r : stage.reductions) {
    Combine(worker, r, worker.lanes, accumulators, values);
    accumulators += r.values.size();
    values += r.values.size();
  }
}

void ReduceRun::FoldTiles(Worker& worker, const CompiledStage& stage, int64_t begin, int64_t end, bool fresh,
                          std::byte* const* to) const {
  if (begin == end) return;
  elements_.Seek(begin, worker.element_tile);
  if (!stage.sums_floats || end - begin <= group_tiles_) FoldInTurn(worker, stage, end - begin, fresh, to);
  else if (stage.sums_f32) FoldInF64(worker, stage, end - begin, fresh, to);
  else FoldInPairs(worker, stage, end - begin, fresh, to);
}

void ReduceRun::FoldInF64(Worker& worker, const CompiledStage& stage, int64_t tiles, bool fresh,
                          std::byte* const* to) const {
  std::byte* partial[kMaxReducedValues];
  double* totals[kMaxReducedValues];
  const auto lanes = static_cast<std::size_t>(worker.lanes);
  const std::size_t values = stage.reductions.size();
  std::byte* memory = worker.memory + groups_;
  for (std::size_t v = 0; v < values; ++v, memory += 2 * accumulator_bytes_) {
    partial[v] = memory;
    totals[v] = reinterpret_cast<double*>(memory + accumulator_bytes_);
    if (fresh) std::fill_n(totals[v], lanes, -0.0);
    else std::copy_n(reinterpret_cast<const float*>(to[v]), lanes, totals[v]);
  }
  for (int64_t tile = 0; tile < tiles; tile += group_tiles_) {
    FoldInTurn(worker, stage, std::min(group_tiles_, tiles - tile), true, partial);
    for (std::size_t v = 0; v < values; ++v) AddF32(reinterpret_cast<const float*>(partial[v]), lanes, totals[v]);
  }
  for (std::size_t v = 0; v < values; ++v) RoundTotals(totals[v], lanes, reinterpret_cast<float*>(to[v]));
}

void ReduceRun::FoldInPairs(Worker& worker, const CompiledStage& stage, int64_t tiles, bool fresh,
                            std::byte* const* to) const {
  std::size_t values = 0;
  for (const CompiledReduction& r : stage.reductions) values += r.values.size();
  std::byte* partial[2][kMaxReducedValues];
  const auto point_at = [&](int which, int level) {
    for (std::size_t v = 0; v < values; ++v)
      partial[which][v] =
          worker.memory + groups_ + (level * stage_values_ + static_cast<int64_t>(v)) * accumulator_bytes_;
  };
  // As the digits of a binary counter: `level` partial results, each of more groups than the next.
  int level = 0;
  const auto merge = [&] {
    point_at(0, level - 2), point_at(1, level - 1);
    CombineStage(worker, stage, partial[0], partial[1]);
    --level;
  };
  uint64_t groups = 0;
  for (int64_t tile = 0; tile < tiles; tile += group_tiles_) {
    point_at(0, level++);
    FoldInTurn(worker, stage, std::min(group_tiles_, tiles - tile), true, partial[0]);
    for (uint64_t carry = ++groups; carry % 2 == 0; carry /= 2) merge();
  }
  while (level > 1) merge();
  point_at(0, 0);
  if (!fresh) return CombineStage(worker, stage, to, partial[0]);
  for (std::size_t v = 0; v < values; ++v)
    std::memcpy(to[v], partial[0][v], static_cast<std::size_t>(accumulator_bytes_));
}

// Before a tile: what sums and products begin with, and where the tile folds its values by itself.
void ReduceRun::PrepareFolds(const Worker& worker, const CompiledStage& stage, bool fresh, std::byte* const* to) const {
  for (const CompiledReduction& r : stage.reductions) {
    if (fresh && r.neutral)
      Fill(r.values[0].width, reinterpret_cast<const std::byte*>(&*r.neutral), to[0], worker.lanes);
    if (r.fold_buffer >= 0) stage.program.SetBuffer(worker.memory + stage.frame, r.fold_buffer, to[0]);
    to += r.values.size();
  }
}

void ReduceRun::FoldInTurn(Worker& worker, const CompiledStage& stage, int64_t tiles, bool fresh,
                           std::byte* const* to) const {
  const void* const* params = Params(worker, stage);
  std::byte* frame = worker.memory + stage.frame;
  for (; tiles > 0 && !worker.is_stopped; --tiles, elements_.Next(worker.element_tile)) {
    std::copy(worker.element_tile.origin.begin(), worker.element_tile.origin.end(),
              worker.origin.begin() + static_cast<std::ptrdiff_t>(row_rank_));
    const int64_t planes = plane_dim_ >= 0 ? worker.row_tile.rows : 1;
    const int64_t rows = worker.row_tile.rows / planes * worker.element_tile.rows;
    const int64_t columns = worker.row_tile.columns * worker.element_tile.columns;
    PrepareFolds(worker, stage, fresh, to);
    worker.since_look += planes * rows * columns * worker.element_tile.planes;
    if (worker.since_look >= kElementsBetweenLooks) worker.since_look = 0, worker.is_stopped = IsInterrupted();
    const auto fold = [&](int64_t plane) {
      std::byte* const* next = to;
      for (const CompiledReduction& r : stage.reductions) {
        std::byte* at[kMaxReducedValues];
        for (std::size_t v = 0; v < r.values.size(); ++v) at[v] = next[v] + plane * columns * r.values[v].width;
        if (r.fold_buffer < 0) FoldTile(worker, stage, r, rows, columns, fresh && !r.neutral, at);
        next += r.values.size();
      }
    };
    if (plane_dim_ >= 0 && planes_fold_) {
      stage.program.RunPlanes(frame, worker.origin, rows, columns, plane_dim_, planes);
    } else {
      for (int64_t plane = 0; plane < planes; ++plane) {
        stage.program.RunTile(frame, worker.origin, rows, columns, params);
        fold(plane);
        if (plane_dim_ >= 0) ++worker.origin[At(plane_dim_)];
      }
      if (plane_dim_ >= 0) worker.origin[At(plane_dim_)] = worker.row_tile.origin[At(plane_dim_)];
    }
    fresh = false;
  }
}

void ReduceRun::Finish(const Worker& worker, const CompiledReduction& r, std::byte* const* to) const {
  if (r.widen != nullptr) {
    std::byte* narrow = worker.memory + temporaries_;
    std::memcpy(narrow, to[0], static_cast<std::size_t>(worker.lanes * r.values[0].width));
    r.widen(narrow, to[0], worker.lanes);
  }
  if (r.wrap != nullptr) r.wrap({to[0], {to[0], nullptr, nullptr}, worker.lanes, 0});
  for (std::size_t v = 0; r.arithmetic != ElementType::kInvalid && v < r.values.size(); ++v)
    SettleNans(r.arithmetic, to[v], worker.lanes);
}

void ReduceRun::RunRowValues(const Worker& worker, const CompiledStage& stage) const {
  if (stage.row_value_count == 0) return;
  const void** pointers = reinterpret_cast<const void**>(worker.memory + pointers_);
  for (int p = 0; p < stage.first_row_value; ++p) pointers[p] = Accumulator(worker, p);
  int64_t rows = worker.row_tile.rows, columns = worker.row_tile.columns;
  if (layout_ == ReduceLayout::kElementsByRows) columns = rows, rows = 1;
  std::byte* frame = worker.memory + stage.row_values_frame;
  stage.row_values.RunTile(frame, worker.row_tile.origin, rows, columns, pointers);
  for (int v = 0; v < stage.row_value_count; ++v) {
    const BlockProgram::Value value = stage.row_values.ResultValue(frame, At(v));
    const int param = stage.first_row_value + v, width = param_widths_[At(param)];
    if (value.is_uniform) Fill(width, value.data, Accumulator(worker, param), worker.lanes);
    else std::memcpy(Accumulator(worker, param), value.data, At(worker.lanes * width));
  }
}

void ReduceRun::RunElements(Worker& worker, const CompiledStage& stage, int64_t begin, int64_t end) const {
  RunRowValues(worker, stage);
  std::byte* to[kMaxReducedValues];
  std::size_t n = 0;
  for (const CompiledReduction& r : stage.reductions)
    for (std::size_t v = 0; v < r.values.size(); ++v)
      to[n++] = Accumulator(worker, r.first_param + static_cast<int>(v));
  std::byte* const* next = to;
  for (const CompiledReduction& r : stage.reductions) {
    InitialValues(worker, r, next);
    next += r.values.size();
  }
  if (window_) FoldWindow(worker, to[0]);
  else FoldTiles(worker, stage, begin, end, false, to);
  next = to;
  for (const CompiledReduction& r : stage.reductions) {
    Finish(worker, r, next);
    next += r.values.size();
  }
}

void ReduceRun::RunRowStage(Worker& worker, const CompiledStage& stage) const {
  const void* const* params = Params(worker, stage);
  int64_t rows = worker.row_tile.rows, columns = worker.row_tile.columns;
  if (layout_ == ReduceLayout::kElementsByRows) columns = rows, rows = 1;
  stage.program.RunTile(worker.memory + stage.frame, worker.row_tile.origin, rows, columns, params);
}

void ReduceRun::RunRowTile(Worker& worker) const {
  if (window_target_) return RunInPlace(worker);
  for (const CompiledStage& stage : stages_) {
    if (stage.scope == ReduceStage::Scope::kRow) RunRowStage(worker, stage);
    else RunElements(worker, stage, 0, elements_.count());
  }
}

// Few rows of many elements: each stage is shared out by fixed chunks of elements, whose partial results are combined
// in order.
Result<> ReduceRun::RunSplit(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const {
  Worker first;
  auto start = [&](Worker& worker, int number, int64_t row_tile) {
    Start(worker, scratch + number * worker_bytes_, bindings);
    SeekRow(worker, row_tile);
  };
  for (int64_t row_tile = 0; row_tile < rows_.count(); ++row_tile) {
    start(first, 0, row_tile);
    for (const CompiledStage& stage : stages_) {
      if (stage.scope == ReduceStage::Scope::kRow) {
        RunRowStage(first, stage);
        continue;
      }
      RunRowValues(first, stage);
      std::size_t values = 0;
      for (const CompiledReduction& r : stage.reductions) values += r.values.size();
      const double stage_time = row_tile_nanoseconds_ / static_cast<double>(stages_.size());
      auto partial = [&](int64_t chunk, std::size_t v) {
        return scratch + shared_ +
               (chunk * static_cast<int64_t>(values) + static_cast<int64_t>(v)) * accumulator_bytes_;
      };
      pool.ParallelParts(chunks_, stage_time, [&](int64_t begin, int64_t end, int number) {
        Worker worker;
        if (number == 0) {
          worker = first;
        } else {
          start(worker, number, row_tile);
          std::memcpy(worker.memory + accumulators_, first.memory + accumulators_,
                      static_cast<std::size_t>(accumulator_bytes_ * param_count_));
        }
        for (int64_t chunk = begin; chunk < end; ++chunk) {
          std::byte* to[kMaxReducedValues];
          for (std::size_t v = 0; v < values; ++v) to[v] = partial(chunk, v);
          FoldTiles(worker, stage, elements_.count() * chunk / chunks_, elements_.count() * (chunk + 1) / chunks_, true,
                    to);
        }
      });
      std::size_t v = 0;
      for (const CompiledReduction& r : stage.reductions) {
        std::byte* to[kMaxReducedValues];
        const std::byte* from[kMaxReducedValues];
        for (std::size_t k = 0; k < r.values.size(); ++k)
          to[k] = Accumulator(first, r.first_param + static_cast<int>(k));
        InitialValues(first, r, to);
        // Neighbours in pairs, until the first one has all.
        if (stage.sums_f32) {
          double* total = reinterpret_cast<double*>(first.memory + groups_);
          const auto lanes = static_cast<std::size_t>(first.lanes);
          float* sum = reinterpret_cast<float*>(to[0]);
          std::copy_n(sum, lanes, total);
          for (int64_t chunk = 0; chunk < chunks_; ++chunk)
            AddF32(reinterpret_cast<const float*>(partial(chunk, v)), lanes, total);
          RoundTotals(total, lanes, sum);
          Finish(first, r, to);
          ++v;
          continue;
        }
        std::byte* left[kMaxReducedValues];
        for (int64_t step = 1; step < chunks_; step *= 2) {
          for (int64_t chunk = 0; chunk + step < chunks_; chunk += 2 * step) {
            for (std::size_t k = 0; k < r.values.size(); ++k)
              left[k] = partial(chunk, v + k), from[k] = partial(chunk + step, v + k);
            Combine(first, r, first.lanes, left, from);
          }
        }
        for (std::size_t k = 0; k < r.values.size(); ++k) from[k] = partial(0, v + k);
        Combine(first, r, first.lanes, to, from);
        Finish(first, r, to);
        v += r.values.size();
      }
    }
  }
  return {};
}

Result<> ReduceRun::Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const {
  if (chunks_ > 1) return RunSplit(bindings, pool, scratch);
  if (window_rows_ && window_target_) return RunWindowRows(bindings, pool, scratch);
  if (window_sums_) {
    window_sums_->Run(bindings, pool, scratch);
    return {};
  }
  pool.ParallelItems(rows_.count(), row_tile_nanoseconds_, [&](int64_t begin, int64_t end, int number) {
    Worker worker;
    Start(worker, scratch + number * worker_bytes_, bindings);
    for (int64_t row = begin; row < end && !IsInterrupted(); ++row) {
      SeekRow(worker, row);
      RunRowTile(worker);
    }
  });
  return {};
}

}  // namespace krafla::cpu
