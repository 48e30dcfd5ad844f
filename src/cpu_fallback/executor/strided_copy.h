// SPDX-License-Identifier: Apache-2.0
// A loop kernel that copies short rows which lie at even distances: repeated pixels, numbers of two parts that change
// places. A tile of the block interpreter has such a row as its columns, and costs more than a few of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "cpu_fallback/executor/move_levels.h"

namespace krafla::cpu {

class StridedCopy {
 public:
  // Nothing where rows are long enough for tiles, or single elements, and of fewer bytes than `least`.
  static std::optional<StridedCopy> Make(const MoveLevels& moves, int64_t least);
  void Run(std::span<std::byte* const> buffers, ThreadPool& pool) const;

 private:
  void MergeLevels();
  int64_t BlocksOfLines() const;
  template <class Copy>
  void RunBlocks(int64_t begin, int64_t end, const std::byte* from, std::byte* to, Copy copy) const;

  int from_buffer_ = 0, to_buffer_ = 0;
  int64_t from_offset_ = 0, to_offset_ = 0, bytes_ = 0;  // of a row
  std::vector<MoveLevel> outer_;
  MoveLevel lines_,
      rows_;  // the two that are walked in blocks: rows beside each other in what is written are the inner one
};

}  // namespace krafla::cpu
