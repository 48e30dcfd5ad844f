// SPDX-License-Identifier: Apache-2.0
// Convolutions as matrix products of our own: rows are positions of the result with what their windows see, which is
// read where it lies, columns are output channels. For types that oneDNN lacks, and whatever else it does not take.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "cpu_fallback/kernels/convolution_problem.h"
#include "cpu_fallback/kernels/gemm.h"

namespace krafla::cpu {

class ConvGemm {
 public:
  // All arrays are of `type`: f32, f64, s32, u32, s64 or u64. At most kMostSpatial spatial dimensions.
  static bool Takes(std::span<const ConvolutionProblem> problems, ElementType type);
  ConvGemm(std::span<const ConvolutionProblem> problems, ElementType type, int threads);

  int64_t scratch_bytes() const { return scratch_bytes_; }
  void Run(const std::byte* input, const std::byte* kernel, std::byte* result, ThreadPool& pool,
           std::byte* scratch) const;

 private:
  struct Problem {
    ConvolutionProblem p;
    int64_t channels = 1, outputs = 1;  // of a group
    int64_t taps = 1, positions = 1;    // of the window; of the result in all images
    int64_t row_tasks = 1;
    bool images_first = false;  // positions that follow each other are those of the images, not of a row
    int64_t run_taps = 1;       // of the innermost dimension, whose channels are one line of the input
    bool writes_there = false;  // output channels lie side by side in the result
    int64_t packed_kernel = 0;  // bytes from the beginning of the scratch; one group's after the other
    int64_t first_pack = 0, first_task = 0;
  };
  static constexpr std::size_t kMostSpatial = 8;
  // A position of the result: where its window begins in the input, and where it lies in the result.
  struct Position {
    int64_t input = 0, result = 0;
    bool sees_all = true;  // no tap lies outside
    int64_t at[kMostSpatial] = {};
  };
  // Some taps with all channels, or some channels of one tap: what is summed before it is added to what was there.
  struct Chunk {
    int64_t first_tap = 0, taps = 1, first_channel = 0, channels = 1;
  };

  int64_t KernelBytes(const Problem& problem) const;
  int64_t columns_of(const Problem& problem) const;
  template <class F>
  void ForEachChunk(const Problem& problem, F&& f) const;
  // Columns in registers: f(first column, columns, vectors).
  template <class F>
  void ForEachColumns(const Problem& problem, F&& f) const;
  void PackKernel(const Problem& problem, int64_t group, const std::byte* kernel, std::byte* to) const;
  void FindPositions(const Problem& problem, int64_t group, int64_t first, std::span<Position> positions) const;
  // The segments of a chunk, one a tap that some row sees; how many there are.
  std::size_t FindRows(const Problem& problem, std::span<const Position> rows, const Chunk& chunk,
                       const std::byte* input, RowSegment* segments, std::byte* gathered, const std::byte* zeros) const;
  // The same where all rows see all taps, of which `run` at a time are one segment.
  std::size_t FindWholeRows(const Problem& problem, std::span<const Position> rows, const Chunk& chunk, int64_t run,
                            const std::byte* input, RowSegment* segments) const;
  void RunTask(const Problem& problem, int64_t task, const std::byte* input, std::byte* result,
               const std::byte* scratch, std::byte* memory) const;

  int width_ = 4;
  PointerTile tile_;
  std::vector<Problem> problems_;
  int64_t packs_ = 0, tasks_ = 0;
  double flops_ = 0;
  int64_t kernels_bytes_ = 0, sums_bytes_ = 0, worker_bytes_ = 0, scratch_bytes_ = 0;
};

}  // namespace krafla::cpu
