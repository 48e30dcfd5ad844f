// SPDX-License-Identifier: Apache-2.0
// A loop kernel that transposes between several dimensions: those whose elements lie side by side in what is read are
// rows, those of what is written are columns, and each row and column has its place. A tile of the block interpreter
// has one dimension of each, which of arrays of many short dimensions are few elements.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "cpu_fallback/executor/move_levels.h"

namespace krafla::cpu {

class TransposedLines {
 public:
  // Nothing where a side has too few elements, and of fewer bytes than `least`.
  static std::optional<TransposedLines> Make(const MoveLevels& moves, int64_t least);
  void Run(std::span<std::byte* const> buffers, ThreadPool& pool) const;
  double time() const { return time_; }  // nanoseconds a byte, roughly

 private:
  struct Side {
    std::vector<int64_t> places;  // of each row or column in the array in which they do not lie side by side
    int64_t step = 0;             // between all of them; 0: not the same everywhere
    // The last dimension may be cut.
    int64_t parts = 1, last = 1;  // elements of the last part
    int64_t from = 0, to = 0;     // bytes between parts
  };
  // Takes the levels out that lie side by side along `dense`, so many of them and of their elements at the most.
  static Side TakeSide(std::vector<MoveLevel>& levels, int64_t width, int64_t MoveLevel::* dense,
                       int64_t MoveLevel::* other, int64_t most, std::size_t most_levels);

  int from_buffer_ = 0, to_buffer_ = 0;
  int64_t from_offset_ = 0, to_offset_ = 0, width_ = 1;
  Side rows_, columns_;
  std::vector<MoveLevel> outer_;
  double time_ = 0;
};

}  // namespace krafla::cpu
