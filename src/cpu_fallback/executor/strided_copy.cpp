// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/strided_copy.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/checked_math.h"
#include "base/interruption.h"

namespace krafla::cpu {

namespace {

constexpr int64_t kLeastStridedRow = 3, kMostStridedRow = 64;
// Blocks of lines and rows, of which the cache keeps both sides.
constexpr int64_t kStridedBlock = 16;
constexpr int64_t kFewStridedRows = 8;
// Of one line, which is cut into blocks of rows.
constexpr int64_t kRowsOfLine = 512;

// kBytes once, or twice with an overlap.
template <std::size_t kBytes>
struct CopyOnce {
  void operator()(std::byte* to, const std::byte* from) const {
    std::array<std::byte, kBytes> value;
    std::memcpy(value.data(), from, kBytes);
    std::memcpy(to, value.data(), kBytes);
  }
};
template <std::size_t kBytes>
struct CopyTwice {
  std::ptrdiff_t second = 0;
  void operator()(std::byte* to, const std::byte* from) const {
    std::array<std::byte, kBytes> a, b;
    std::memcpy(a.data(), from, kBytes);
    std::memcpy(b.data(), from + second, kBytes);
    std::memcpy(to, a.data(), kBytes);
    std::memcpy(to + second, b.data(), kBytes);
  }
};

}  // namespace

void StridedCopy::MergeLevels() {
  std::ranges::sort(outer_, [](const MoveLevel& a, const MoveLevel& b) { return std::abs(a.to) > std::abs(b.to); });
  for (std::size_t i = outer_.size(); i-- > 1;) {
    const MoveLevel inner = outer_[i];
    MoveLevel& outer = outer_[i - 1];
    if (outer.from != inner.from * inner.extent || outer.to != inner.to * inner.extent) continue;
    outer = {outer.extent * inner.extent, inner.from, inner.to};
    outer_.erase(outer_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

std::optional<StridedCopy> StridedCopy::Make(const MoveLevels& moves, int64_t least) {
  StridedCopy out;
  const int64_t width = moves.width;
  out.from_buffer_ = moves.from_buffer, out.to_buffer_ = moves.to_buffer;
  out.from_offset_ = moves.from_offset, out.to_offset_ = moves.to_offset;
  out.outer_ = moves.levels;
  if (moves.bytes() < least) return std::nullopt;
  out.bytes_ = TakeRow(out.outer_, width);
  if (out.bytes_ == width || out.bytes_ < kLeastStridedRow || out.bytes_ > kMostStridedRow) return std::nullopt;
  out.MergeLevels();
  if (out.outer_.empty()) return std::nullopt;
  out.rows_ = out.outer_.back();
  out.outer_.pop_back();
  if (out.outer_.empty()) return out;
  // The dimension along which the least is skipped of what is read, if it is another one.
  auto lines = std::ranges::min_element(out.outer_, {},
                                        [](const MoveLevel& l) { return l.from == 0 ? INT64_MAX : std::abs(l.from); });
  if (lines->from == 0 || std::abs(lines->from) > std::abs(out.rows_.from)) lines = out.outer_.end() - 1;
  out.lines_ = *lines;
  out.outer_.erase(lines);
  // Few rows, as a pixel's repetitions, are turns of the outer loop.
  if (out.rows_.extent < kFewStridedRows && out.lines_.extent > out.rows_.extent) std::swap(out.lines_, out.rows_);
  return out;
}

// Blocks of kStridedBlock lines, or of one line's rows: `copy` for each row of them.
template <class Copy>
void StridedCopy::RunBlocks(int64_t begin, int64_t end, const std::byte* from, std::byte* to, Copy copy) const {
  const int64_t blocks = BlocksOfLines();
  for (int64_t b = begin; b < end && !IsInterrupted(); ++b) {
    const auto [from_at, to_at] = PlaceOf(outer_, b / blocks);
    if (lines_.extent == 1) {
      const int64_t row = b % blocks * kRowsOfLine, rows = std::min(kRowsOfLine, rows_.extent - row);
      const std::byte* f = from + from_at + row * rows_.from;
      std::byte* t = to + to_at + row * rows_.to;
      for (int64_t r = 0; r < rows; ++r, f += rows_.from, t += rows_.to) copy(t, f);
      continue;
    }
    const int64_t first = b % blocks * kStridedBlock, last = std::min(first + kStridedBlock, lines_.extent);
    for (int64_t row = 0; row < rows_.extent; row += kStridedBlock) {
      const int64_t rows = std::min(kStridedBlock, rows_.extent - row);
      for (int64_t line = first; line < last; ++line) {
        const std::byte* f = from + from_at + line * lines_.from + row * rows_.from;
        std::byte* t = to + to_at + line * lines_.to + row * rows_.to;
        for (int64_t r = 0; r < rows; ++r, f += rows_.from, t += rows_.to) copy(t, f);
      }
    }
  }
}

int64_t StridedCopy::BlocksOfLines() const {
  return lines_.extent == 1 ? CeilDiv(rows_.extent, kRowsOfLine) : CeilDiv(lines_.extent, kStridedBlock);
}

void StridedCopy::Run(std::span<std::byte* const> buffers, ThreadPool& pool) const {
  const std::byte* from = buffers[static_cast<std::size_t>(from_buffer_)] + from_offset_;
  std::byte* to = buffers[static_cast<std::size_t>(to_buffer_)] + to_offset_;
  int64_t blocks = BlocksOfLines();
  for (const MoveLevel& l : outer_) blocks *= l.extent;
  const int64_t rows_of_block =
      lines_.extent == 1 ? std::min(kRowsOfLine, rows_.extent) : std::min(kStridedBlock, lines_.extent) * rows_.extent;
  const double nanoseconds = 5 + 1.5 * static_cast<double>(rows_of_block);
  const auto second = [&](std::size_t bytes) {
    return static_cast<std::ptrdiff_t>(bytes_) - static_cast<std::ptrdiff_t>(bytes);
  };
  pool.ParallelItems(blocks, nanoseconds, [&](int64_t begin, int64_t end, int) {
    switch (bytes_) {
      case 4: return RunBlocks(begin, end, from, to, CopyOnce<4>());
      case 8: return RunBlocks(begin, end, from, to, CopyOnce<8>());
      case 16: return RunBlocks(begin, end, from, to, CopyOnce<16>());
      case 32: return RunBlocks(begin, end, from, to, CopyOnce<32>());
      case 64: return RunBlocks(begin, end, from, to, CopyOnce<64>());
      default: break;
    }
    if (bytes_ < 4) return RunBlocks(begin, end, from, to, CopyTwice<2>{second(2)});
    if (bytes_ < 8) return RunBlocks(begin, end, from, to, CopyTwice<4>{second(4)});
    if (bytes_ < 16) return RunBlocks(begin, end, from, to, CopyTwice<8>{second(8)});
    if (bytes_ < 32) return RunBlocks(begin, end, from, to, CopyTwice<16>{second(16)});
    return RunBlocks(begin, end, from, to, CopyTwice<32>{second(32)});
  });
}

}  // namespace krafla::cpu
