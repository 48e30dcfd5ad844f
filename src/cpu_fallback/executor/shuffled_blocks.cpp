// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/shuffled_blocks.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <optional>

#include "base/interruption.h"

namespace krafla::cpu {

namespace {

// Of what lies side by side in both arrays: more is copied.
constexpr int64_t kMostRow = 15;
// A block's table should stay in the nearest cache beside what it moves, of which the lines that it reads have little
// else.
constexpr int64_t kMostBlock = 4096, kLeastBlock = 64;
constexpr int64_t kMostSpread = 4, kShuffledLine = 64, kMostReach = int64_t{1} << 30;
constexpr int64_t kLongRow = 16;
constexpr int64_t kMostWindows = 16;  // for 16 bytes
// What is read by few bytes of each line, and by others of them again, comes from the second cache up to this size.
constexpr int64_t kNearBytes = 256 * 1024;
// Nanoseconds, roughly: of a window, and of a block besides.
constexpr double kWindowTime = 0.4, kWindowOfWordsTime = 0.8, kBlockTime = 5;
// Rows of a transpose from which on it is done by vectors of their own.
constexpr int64_t kLongSide = 32;

// Where each byte of a block comes from, from the block's lowest byte on.
struct Sources {
  std::vector<int64_t> of;  // by the byte that is written
  int64_t lowest = 0, span = 0;
};
Sources SourcesOf(std::span<const MoveLevel> block, int64_t width) {
  Sources out;
  for (int64_t b = 0; b < width; ++b) out.of.push_back(b);
  // Levels by rising place: each repeats what there is.
  for (const MoveLevel& l : block) {
    const std::size_t size = out.of.size();
    for (int64_t i = 1; i < l.extent; ++i)
      for (std::size_t b = 0; b < size; ++b) out.of.push_back(out.of[b] + i * l.from);
  }
  out.lowest = std::ranges::min(out.of);
  for (int64_t& b : out.of) b -= out.lowest;
  out.span = std::ranges::max(out.of) + 1;
  return out;
}

// The bytes of the lines that a block reads.
int64_t BytesOfLines(const Sources& sources) {
  std::vector<int64_t> lines;
  for (int64_t b : sources.of) lines.push_back(b / kShuffledLine);
  std::ranges::sort(lines);
  return static_cast<int64_t>(std::ranges::unique(lines).begin() - lines.begin()) * kShuffledLine;
}

struct Window {
  int64_t begin = 0;
  std::vector<uint32_t> shuffle;  // by what is written: the byte or word of the window; kNoWord: of another one
};
// The windows that a vector at `at` comes from, all of them within the block. unit: of what moves.
std::vector<Window> WindowsOf(const Sources& sources, int64_t at, int64_t bytes, int64_t unit) {
  std::map<int64_t, std::vector<int64_t>> wanted;  // by source
  for (int64_t b = 0; b < bytes; b += unit) wanted[sources.of[static_cast<std::size_t>(at + b)]].push_back(b / unit);
  std::vector<Window> out;
  int64_t end = -1;
  for (const auto& [source, places] : wanted) {
    if (source >= end) {
      Window& window = out.emplace_back();
      window.begin = std::min(source, sources.span - bytes);
      window.shuffle.assign(static_cast<std::size_t>(bytes / unit), kNoWord);
      end = window.begin + bytes;
    }
    for (int64_t p : places)
      out.back().shuffle[static_cast<std::size_t>(p)] = static_cast<uint32_t>((source - out.back().begin) / unit);
  }
  return out;
}

// A table of vectors of `bytes`, of which the last may overlap with the one before.
ByteShuffles TableOf(const Sources& sources, int64_t bytes, int64_t unit) {
  ByteShuffles out;
  const auto size = static_cast<int64_t>(sources.of.size());
  std::vector<std::vector<Window>> chunks;
  std::size_t windows = 1;
  for (int64_t at = 0; at < size; at += bytes) {
    const int64_t place = std::min(at, size - bytes);
    chunks.push_back(WindowsOf(sources, place, bytes, unit));
    windows = std::max(windows, chunks.back().size());
    out.to.push_back(static_cast<int32_t>(place));
  }
  for (std::vector<Window>& chunk : chunks) {
    Window none = chunk.back();
    std::ranges::fill(none.shuffle, kNoWord);
    chunk.resize(windows, none);
    for (const Window& w : chunk) {
      out.from.push_back(static_cast<int32_t>(w.begin));
      for (uint32_t n : w.shuffle) {
        if (unit > 1) out.words.push_back(n);
        else out.shuffle.push_back(n == kNoWord ? 0x80 : static_cast<uint8_t>(n));
      }
    }
  }
  out.windows = static_cast<int64_t>(windows);
  return out;
}

// The same in words, where all moves in words; nothing where bytes are as fast.
std::optional<ByteShuffles> TableOfWords(const Sources& sources, const ByteShuffles& table) {
  constexpr int64_t kWord = 4;
  const int64_t bytes = ShuffledWords() * kWord;
  if (bytes == 0 || static_cast<int64_t>(sources.of.size()) < bytes || sources.span < bytes) return std::nullopt;
  for (std::size_t b = 0; b < sources.of.size(); ++b) {
    const std::size_t in_word = b % kWord;
    const int64_t word = sources.of[b - in_word];
    if (word % kWord != 0 || sources.of[b] != word + static_cast<int64_t>(in_word)) return std::nullopt;
  }
  ByteShuffles out = TableOf(sources, bytes, kWord);
  // A window of words takes a third longer than one of bytes.
  if (out.windows * kShuffledBytes * 4 > table.windows * bytes * 3) return std::nullopt;
  return out;
}

// How many of a level's steps are part of a block, which has `bytes` without it and `most_bytes` at the most: a divisor
// of all, or so many that what is left over makes a block too. 0: it cannot be cut.
int64_t StepsOfBlock(int64_t extent, int64_t bytes, int64_t most_bytes) {
  const int64_t most = std::min(extent, most_bytes / bytes), least = std::max<int64_t>(most / 4, 1);
  for (int64_t steps = most; steps >= least; --steps)
    if (extent % steps == 0 && steps * bytes >= kLeastBlock) return steps;
  for (int64_t steps = most; steps >= least; --steps)
    if (extent % steps * bytes >= kLeastBlock && steps * bytes >= kLeastBlock) return steps;
  return 0;
}

// What is moved at once, and what goes around it.
struct Blocks {
  std::vector<MoveLevel> block = {}, outer = {};
  int64_t bytes = 0;
  MoveLevel cut{.extent = 0};  // the level of which a block has some steps
};
// Blocks of at most so many bytes. levels: by rising place. Nothing: there are none.
std::optional<Blocks> BlocksOf(std::span<const MoveLevel> levels, int64_t width, int64_t most) {
  Blocks out{.bytes = width};
  for (const MoveLevel& l : levels) {
    if (l.to <= 0) return std::nullopt;
    if (out.cut.extent == 0 && l.to == out.bytes && out.bytes < most) {
      const int64_t steps = out.bytes * l.extent <= most ? l.extent : StepsOfBlock(l.extent, out.bytes, most);
      if (steps == 0 && out.bytes < kLeastBlock) return std::nullopt;
      if (steps > 0) {
        out.block.push_back({steps, l.from, l.to});
        out.bytes *= steps;
        if (steps < l.extent) out.cut = l;
        continue;
      }
    }
    if (out.cut.extent == 0) out.cut = {.extent = -1};  // no further level is side by side
    out.outer.push_back(l);
  }
  if (out.block.empty() || out.bytes < kLeastBlock) return std::nullopt;
  return out;
}

}  // namespace

bool ShuffledBlocks::MakeOne(const MoveLevels& moves, std::span<const MoveLevel> block,
                             std::span<const MoveLevel> outer, int64_t first, std::vector<ShuffledBlocks>& to) {
  const Sources sources = SourcesOf(block, moves.width);
  const auto size = static_cast<int64_t>(sources.of.size());
  if (sources.span < kShuffledBytes || sources.span > kMostReach) return false;
  if (moves.bytes() > kNearBytes && BytesOfLines(sources) > kMostSpread * size) return false;
  ShuffledBlocks out;
  out.table_ = TableOf(sources, kShuffledBytes, 1);
  if (out.table_.windows > kMostWindows) return false;
  // Of planes that lie far apart, transposes of 2, 4, 8 or 16 at once are faster.
  if (sources.span > kMostSpread * size && std::has_single_bit(static_cast<uint64_t>(block.front().extent)) &&
      moves.SideOf(&MoveLevel::from) >= kLongSide)
    return false;
  if (std::optional<ByteShuffles> words = TableOfWords(sources, out.table_)) out.table_ = std::move(*words);
  out.from_buffer_ = moves.from_buffer, out.to_buffer_ = moves.to_buffer;
  const MoveLevel& cut = block.back();
  out.from_offset_ = moves.from_offset + sources.lowest + first * cut.from;
  out.to_offset_ = moves.to_offset + first * cut.to;
  out.outer_.assign(outer.begin(), outer.end());
  to.push_back(std::move(out));
  return true;
}

double ShuffledBlocks::TimeOfBlock() const {
  const double window = table_.words.empty() ? kWindowTime : kWindowOfWordsTime;
  return kBlockTime + window * static_cast<double>(table_.from.size());
}

std::vector<ShuffledBlocks> ShuffledBlocks::Make(const MoveLevels& moves, int64_t least) {
  std::vector<MoveLevel> levels = moves.levels;
  if (levels.empty() || moves.bytes() < least || TakeRow(levels, moves.width) > kMostRow) return {};
  levels = moves.levels;
  std::ranges::sort(levels, {}, &MoveLevel::to);
  // Long rows of neighbours, backwards, repeated, or every other one, are loops of whole vectors.
  if (levels.front().extent >= kLongRow && std::abs(levels.front().from) <= 2 * moves.width) return {};
  std::vector<ShuffledBlocks> best;
  double best_time = moves.TimeOfTiles();
  // Larger blocks spread over more lines, and what they have at a place may come from more windows.
  int64_t most = moves.width;
  for (const MoveLevel& l : levels) {
    if (l.to != most || most > kMostBlock) break;
    most *= l.extent;
    if (most < kLeastBlock) continue;
    std::optional<Blocks> blocks = BlocksOf(levels, moves.width, std::min(most, kMostBlock));
    if (!blocks) continue;
    std::vector<ShuffledBlocks> out;
    std::vector<MoveLevel>&block = blocks->block, &outer = blocks->outer;
    const int64_t steps = block.back().extent;
    const MoveLevel& cut = blocks->cut;
    if (cut.extent > steps) {
      outer.insert(outer.begin(), {cut.extent / steps, cut.from * steps, cut.to * steps});
      if (!MakeOne(moves, block, outer, 0, out)) continue;
      outer.erase(outer.begin());
      block.back().extent = cut.extent % steps;
      if (block.back().extent > 0 && !MakeOne(moves, block, outer, cut.extent - cut.extent % steps, out)) continue;
    } else if (!MakeOne(moves, block, outer, 0, out)) {
      continue;
    }
    out.front().time_ = out.front().TimeOfBlock() / static_cast<double>(blocks->bytes);
    if (out.front().time_ < best_time) best_time = out.front().time_, best = std::move(out);
  }
  return best;
}

void ShuffledBlocks::Run(std::span<std::byte* const> buffers, ThreadPool& pool) const {
  const std::byte* from = buffers[static_cast<std::size_t>(from_buffer_)] + from_offset_;
  std::byte* to = buffers[static_cast<std::size_t>(to_buffer_)] + to_offset_;
  int64_t blocks = 1;
  for (const MoveLevel& l : outer_) blocks *= l.extent;
  constexpr int64_t kBlocksBetweenLooks = 256;
  pool.ParallelItems(blocks, TimeOfBlock(), [&](int64_t begin, int64_t end, int) {
    for (int64_t b = begin; b < end; ++b) {
      if ((b - begin) % kBlocksBetweenLooks == 0 && IsInterrupted()) return;
      int64_t rest = b, from_at = 0, to_at = 0;
      for (const MoveLevel& l : outer_) {
        from_at += rest % l.extent * l.from, to_at += rest % l.extent * l.to;
        rest /= l.extent;
      }
      RunByteShuffles(table_, from + from_at, to + to_at);
    }
  });
}

}  // namespace krafla::cpu
