// SPDX-License-Identifier: Apache-2.0
// A loop kernel that copies whole rows whose places are computed: table[indices[i], :]. The places are found once a row
// by a block program of their own, or once for a window of rows that lie at equal distances, and each row is one copy.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "cpu_fallback/executor/block_program.h"
#include "cpu_fallback/executor/iteration.h"

namespace krafla::cpu {

class RowGather {
 public:
  // Nothing where the program does something else.
  static Result<std::optional<RowGather>> Make(const plan::ElementProgram& program);

  int64_t scratch_bytes(int threads) const { return places_.frame_bytes() * threads; }
  void Run(std::span<std::byte* const> buffers, ThreadPool& pool, std::byte* scratch) const;

 private:
  void FindWindow(const plan::ElementProgram& program, int column, plan::NodeId inside, int& row);
  void FindTargets(const plan::ElementProgram& program);
  template <class Use>
  static void WithCopy(std::size_t bytes, Use use);
  void CopyEvenly(const std::byte* memory, const TileGrid::Tile& tile, std::span<std::byte* const> buffers) const;
  void CopyRows(const std::byte* memory, int64_t n, std::span<std::byte* const> buffers) const;

  // Results: where a row comes from; without targets_ where it goes, and with fill_ whether it comes from there.
  BlockProgram places_;
  struct Targets {
    int64_t offset = 0;
    Dims strides;  // one a dimension
  };
  std::optional<Targets> targets_;  // in elements
  TileShape tile_;
  TileGrid grid_;
  int from_ = 0, to_ = 0;  // buffers
  int width_ = 1;
  int64_t columns_ = 1;
  int64_t rows_ = 1, from_stride_ = 0, to_stride_ = 0;  // of a window, in elements
  std::optional<uint64_t> fill_;                        // what the rows are full of that come from nowhere
  double tile_nanoseconds_ = 0;
};

}  // namespace krafla::cpu
