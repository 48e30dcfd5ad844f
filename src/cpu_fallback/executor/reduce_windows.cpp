// SPDX-License-Identifier: Apache-2.0
// The runs of a reduction that is one over windows (window_fold.h, window_rows.h).
#include <algorithm>

#include "base/interruption.h"
#include "cpu_fallback/executor/long_sum.h"
#include "cpu_fallback/executor/reduce_run.h"
#include "cpu_fallback/kernels/block_ops.h"
#include "cpu_fallback/kernels/long_sums.h"
#include "cpu_fallback/kernels/move.h"

namespace krafla::cpu {

void ReduceRun::FoldWindow(Worker& worker, std::byte* to) const {
  const TileGrid::Tile& tile = worker.row_tile;
  const auto fold = [&](std::byte* sum, int64_t begin, int64_t end) {
    window_->Run(worker.bindings, tile.origin, tile.rows, tile.columns, sum, tile.columns, begin, end);
  };
  if (window_rows_) {
    const std::byte* initial = worker.memory + initials_ + 8 * stages_[0].reductions[0].first_param;
    window_rows_->RunTile(worker.bindings, tile.origin, tile.rows, initial, to);
    return;
  }
  if (!window_in_groups_) {
    for (int64_t begin = 0; begin < window_->elements() && !IsInterrupted(); begin += kElementsBetweenLooks)
      fold(to, begin, std::min(begin + kElementsBetweenLooks, window_->elements()));
    return;
  }
  const auto lanes = static_cast<std::size_t>(worker.lanes);
  float* partial = reinterpret_cast<float*>(worker.memory + groups_);
  double* total = reinterpret_cast<double*>(worker.memory + groups_ + accumulator_bytes_);
  std::copy_n(reinterpret_cast<const float*>(to), lanes, total);
  for (int64_t begin = 0; begin < window_->elements(); begin += kWindowTurns) {
    if (begin % kElementsBetweenLooks == 0 && IsInterrupted()) return;
    std::fill_n(partial, lanes, -0.0f);
    fold(reinterpret_cast<std::byte*>(partial), begin, std::min(begin + kWindowTurns, window_->elements()));
    AddF32(partial, lanes, total);
  }
  RoundTotals(total, lanes, reinterpret_cast<float*>(to));
}

// The sums of a window where they are stored.
void ReduceRun::RunInPlace(Worker& worker) const {
  const TileGrid::Tile& tile = worker.row_tile;
  const CompiledReduction& r = stages_[0].reductions[0];
  const int width = r.values[0].width;
  int64_t at = window_target_->offset;
  for (std::size_t d = 0; d < row_rank_; ++d) at += tile.origin[d] * window_target_->strides[d];
  const int64_t stride =
      tile_.row_dim < 0 ? tile.columns : window_target_->strides[static_cast<std::size_t>(tile_.row_dim)];
  std::byte* to = worker.bindings[static_cast<std::size_t>(window_target_->buffer)] + at * width;
  const std::byte* initial = worker.memory + initials_ + 8 * r.first_param;
  const bool dense = stride == tile.columns;
  for (int64_t row = 0; row < (dense ? 1 : tile.rows); ++row)
    Fill(width, initial, to + row * stride * width, dense ? tile.rows * tile.columns : tile.columns);
  window_->Run(worker.bindings, tile.origin, tile.rows, tile.columns, to, stride, 0, window_->elements());
  for (int64_t row = 0; row < (dense ? 1 : tile.rows); ++row)
    SettleNans(r.arithmetic, to + row * stride * width, dense ? tile.rows * tile.columns : tile.columns);
}

Result<> ReduceRun::RunWindowRows(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const {
  Worker worker;
  Start(worker, scratch, bindings);
  const CompiledReduction& r = stages_[0].reductions[0];
  window_rows_->Run(bindings, worker.memory + initials_ + 8 * r.first_param, r.arithmetic, pool);
  return {};
}

}  // namespace krafla::cpu
