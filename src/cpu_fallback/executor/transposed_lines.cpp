// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/transposed_lines.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/checked_math.h"
#include "base/interruption.h"
#include "cpu_fallback/kernels/move.h"

namespace krafla::cpu {

namespace {

// Of a call: a line of the cache of each column stays there, and so do the rows that they go to.
constexpr int64_t kLinesOfCall = 512, kColumnsOfCall = 256;
constexpr int64_t kFewestLines = 4;
constexpr double kTimeOfCall = 20;  // nanoseconds

}  // namespace

TransposedLines::Side TransposedLines::TakeSide(std::vector<MoveLevel>& levels, int64_t width,
                                                int64_t MoveLevel::* dense, int64_t MoveLevel::* other, int64_t most,
                                                std::size_t most_levels) {
  Side out;
  out.places = {0};
  bool is_even = true, is_cut = false;
  for (std::size_t taken = 0; taken < most_levels && !is_cut; ++taken) {
    const auto count = static_cast<int64_t>(out.places.size());
    const auto next = std::ranges::find(levels, count * width, dense);
    if (next == levels.end() || 2 * count > most) break;
    // Even parts.
    const int64_t parts = CeilDiv(next->extent * count, most), steps = CeilDiv(next->extent, parts);
    is_cut = parts > 1;
    out.parts = CeilDiv(next->extent, steps);
    out.last = (next->extent - (out.parts - 1) * steps) * count;
    out.from = steps * next->from, out.to = steps * next->to;
    const int64_t step = (*next).*other / width;
    if (count == 1) out.step = step;
    is_even = is_even && step == count * out.step;
    for (int64_t i = 1; i < steps; ++i)
      for (int64_t k = 0; k < count; ++k) out.places.push_back(out.places[static_cast<std::size_t>(k)] + i * step);
    levels.erase(next);
  }
  if (!is_even) out.step = 0;
  if (!is_cut) out.parts = 1, out.last = static_cast<int64_t>(out.places.size());
  return out;
}

std::optional<TransposedLines> TransposedLines::Make(const MoveLevels& moves, int64_t least) {
  if (moves.bytes() < least) return std::nullopt;
  TransposedLines out;
  out.outer_ = moves.levels;
  out.width_ = TakeRow(out.outer_, moves.width);
  const auto is_whole = [&](int64_t bytes) { return bytes % out.width_ == 0; };
  if (out.width_ > 8 || !std::has_single_bit(static_cast<uint64_t>(out.width_)) || !is_whole(moves.from_offset) ||
      !is_whole(moves.to_offset) ||
      !std::ranges::all_of(out.outer_, [&](const MoveLevel& l) { return is_whole(l.from) && is_whole(l.to); }))
    return std::nullopt;
  out.from_buffer_ = moves.from_buffer, out.to_buffer_ = moves.to_buffer;
  out.from_offset_ = moves.from_offset, out.to_offset_ = moves.to_offset;
  // What rows take is none of the columns'.
  const std::vector<MoveLevel> levels = out.outer_;
  std::optional<TransposedLines> best;
  for (std::size_t most_levels = 1; most_levels <= levels.size(); ++most_levels) {
    out.outer_ = levels;
    out.rows_ = TakeSide(out.outer_, out.width_, &MoveLevel::from, &MoveLevel::to, kLinesOfCall, most_levels);
    out.columns_ = TakeSide(out.outer_, out.width_, &MoveLevel::to, &MoveLevel::from, kColumnsOfCall, levels.size());
    const auto rows = static_cast<int64_t>(out.rows_.places.size());
    const auto columns = static_cast<int64_t>(out.columns_.places.size());
    if (std::min(rows, columns) < 2 || std::max(rows, columns) < kFewestLines) continue;
    const bool is_dense = out.rows_.step == columns;
    out.time_ =
        (TimeOfTranspose(out.width_, rows, columns, is_dense) + kTimeOfCall / static_cast<double>(rows * columns)) /
        static_cast<double>(out.width_);
    if (!best || out.time_ < best->time_) best = out;
  }
  return best;
}

void TransposedLines::Run(std::span<std::byte* const> buffers, ThreadPool& pool) const {
  const std::byte* from = buffers[static_cast<std::size_t>(from_buffer_)] + from_offset_;
  std::byte* to = buffers[static_cast<std::size_t>(to_buffer_)] + to_offset_;
  int64_t calls = rows_.parts * columns_.parts;
  for (const MoveLevel& l : outer_) calls *= l.extent;
  const auto size_of = [](const Side& side, int64_t part) {
    return part == side.parts - 1 ? side.last : static_cast<int64_t>(side.places.size());
  };
  const double elements = static_cast<double>(rows_.places.size() * columns_.places.size());
  constexpr int64_t kCallsBetweenLooks = 64;
  pool.ParallelItems(calls, time_ * static_cast<double>(width_) * elements, [&](int64_t begin, int64_t end, int) {
    for (int64_t call = begin; call < end; ++call) {
      if ((call - begin) % kCallsBetweenLooks == 0 && IsInterrupted()) return;
      const int64_t column_part = call % columns_.parts, row_part = call / columns_.parts % rows_.parts;
      auto [from_at, to_at] = PlaceOf(outer_, call / columns_.parts / rows_.parts);
      from_at += column_part * columns_.from + row_part * rows_.from;
      to_at += column_part * columns_.to + row_part * rows_.to;
      TransposeColumns(static_cast<int>(width_), from + from_at, columns_.places.data(), to + to_at,
                       {rows_.places.data(), rows_.step}, size_of(rows_, row_part), size_of(columns_, column_part));
    }
  });
}

}  // namespace krafla::cpu
