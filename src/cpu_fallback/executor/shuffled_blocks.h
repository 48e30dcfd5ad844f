// SPDX-License-Identifier: Apache-2.0
// A loop kernel that puts the elements of small blocks into another order, the same for each: transposes of small
// matrices, channels that change places, pixels backwards. Rows are too short for copies and for tiles; the order of a
// block's bytes is a table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "cpu_fallback/executor/move_levels.h"
#include "cpu_fallback/kernels/byte_shuffles.h"

namespace krafla::cpu {

class ShuffledBlocks {
 public:
  // Those that together move everything; none where copies or tiles are better, and of fewer bytes than `least`.
  static std::vector<ShuffledBlocks> Make(const MoveLevels& moves, int64_t least);
  void Run(std::span<std::byte* const> buffers, ThreadPool& pool) const;
  double time() const { return time_; }  // nanoseconds a byte, roughly, of the first ones

 private:
  static bool MakeOne(const MoveLevels& moves, std::span<const MoveLevel> block, std::span<const MoveLevel> outer,
                      int64_t first, std::vector<ShuffledBlocks>& to);
  double TimeOfBlock() const;  // nanoseconds, roughly

  int from_buffer_ = 0, to_buffer_ = 0;
  int64_t from_offset_ = 0, to_offset_ = 0;
  ByteShuffles table_;
  double time_ = 0;
  std::vector<MoveLevel> outer_;  // the blocks
};

}  // namespace krafla::cpu
