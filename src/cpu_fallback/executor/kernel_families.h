// SPDX-License-Identifier: Apache-2.0
// The makers of kernels, one per family.
#pragma once

#include <memory>

#include "cpu_fallback/executor/block_program.h"
#include "cpu_fallback/executor/byte_table.h"
#include "cpu_fallback/executor/cpu_kernel.h"
#include "cpu_fallback/executor/interleaved_arrays.h"
#include "cpu_fallback/executor/iteration.h"
#include "cpu_fallback/executor/loop_choice.h"
#include "cpu_fallback/executor/row_gather.h"
#include "cpu_fallback/executor/shuffled_blocks.h"
#include "cpu_fallback/executor/strided_copy.h"
#include "cpu_fallback/executor/tile_order.h"
#include "cpu_fallback/executor/transposed_lines.h"
#include "cpu_fallback/executor/zero_pad.h"

namespace krafla::cpu {

using KernelResult = Result<std::unique_ptr<CpuKernel>>;

KernelResult MakeLoopKernel(const plan::KernelPlan& plan, const plan::LoopKernel& body,
                            const CpuKernelOptions& options);
KernelResult MakeReduceKernel(const plan::KernelPlan& plan, const plan::ReduceKernel& body,
                              const CpuKernelOptions& options);
KernelResult MakeSortKernel(const plan::KernelPlan& plan, const plan::SortKernel& body,
                            const CpuKernelOptions& options);
KernelResult MakeScanKernel(const plan::KernelPlan& plan, const plan::ScanKernel& body,
                            const CpuKernelOptions& options);
KernelResult MakeScatterKernel(const plan::KernelPlan& plan, const plan::ScatterKernel& body,
                               const CpuKernelOptions& options);
KernelResult MakeDotKernel(const plan::KernelPlan& plan, const plan::DotKernel& body, const CpuKernelOptions& options);
KernelResult MakeConvKernel(const plan::KernelPlan& plan, const plan::ConvKernel& body,
                            const CpuKernelOptions& options);
KernelResult MakeFftKernel(const plan::KernelPlan& plan, const plan::FftKernel& body, const CpuKernelOptions& options);
KernelResult MakeLinalgKernel(const plan::KernelPlan& plan, const plan::LinalgKernel& body,
                              const CpuKernelOptions& options);
KernelResult MakeAttentionKernel(const plan::KernelPlan& plan, const plan::AttentionKernel& body,
                                 const CpuKernelOptions& options);
KernelResult MakeHorizontalKernel(const plan::KernelPlan& plan, const plan::HorizontalKernel& body,
                                  const CpuKernelOptions& options);
KernelResult MakeHostKernel(const plan::KernelPlan& plan, const plan::HostKernel& body,
                            const CpuKernelOptions& options);

// A program run over its whole iteration space by all threads: a loop kernel, or the epilogue of another.
class LoopRunner {
 public:
  // runs: as CpuKernelOptions. choices: how many choices (loop_choice.h) it is a way of.
  static Result<LoopRunner> Make(plan::ElementProgram program, int64_t runs = 1, int choices = 0);

  int64_t scratch_bytes(int threads) const {
    return choice_ != nullptr ? choice_->scratch_bytes(threads) : frame_bytes_ * threads;
  }
  void Run(std::span<std::byte* const> buffers, ThreadPool& pool, std::byte* scratch) const;
  bool AppendTo(TapeBuilder& tape, std::span<const plan::Slice> buffers) const;
  Result<bool> AppendTo(RoutineBlock& block, std::span<const plan::Slice> buffers) const;

 private:
  // A part of the space with a program of its own (pieces.h).
  struct Piece {
    BlockProgram program;
    TileGrid grid;
    TileGrid::Tile only;  // when there is one tile
    int plane_dim = -1;   // of its tiles
    bool IsOneTile() const { return grid.count() == 1 && plane_dim < 0; }
    std::shared_ptr<const plan::ElementProgram> source;  // for routines, of a few elements
  };
  static void RunTiles(const Piece& piece, int64_t begin, int64_t end, std::span<std::byte* const> buffers,
                       std::byte* memory);

  // Whether nothing of it is done by other means than programs.
  bool IsPieces() const {
    return choice_ == nullptr && !pad_ && rows_.empty() && tables_.empty() && lines_.empty() && copies_.empty() &&
           shuffles_.empty() && arrays_.empty();
  }

  std::shared_ptr<const LoopChoice> choice_;  // null: it is what is below
  std::optional<ZeroPad> pad_;                // so it is, too
  std::vector<Piece> pieces_;
  std::vector<TileRun> order_;            // of the pieces' tiles; empty: one piece after the other
  std::vector<RowGather> rows_;           // parts that are copies of rows
  std::vector<ByteTable> tables_;         // parts that find elements by bytes
  std::vector<TransposedLines> lines_;    // transposes of several dimensions
  std::vector<StridedCopy> copies_;       // and of short ones at even distances
  std::vector<ShuffledBlocks> shuffles_;  // elements in another order
  std::vector<InterleavedArrays> arrays_;
  int64_t frame_bytes_ = 0;
  int64_t tiles_ = 0;  // of all pieces
  int64_t grain_ = 1;  // tiles that are worth a thread
};

}  // namespace krafla::cpu
