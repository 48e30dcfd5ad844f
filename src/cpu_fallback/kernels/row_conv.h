// SPDX-License-Identifier: Apache-2.0
// Convolutions of few output channels a group over long rows: the lanes of vectors are positions beside each other.
// Products of matrices have the output channels as lanes, most of which would be empty.
#pragma once

#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "cpu_fallback/kernels/convolution_problem.h"

namespace krafla::cpu {

// Rows of sums of products: sums[f][x] (+)= weights[s][t][f] * rows[s][shifts[t] + x] over all s and t.
struct RowConvSums {
  std::span<const std::byte* const> rows = {}, weights = {};
  std::span<const int64_t> shifts;  // elements
  int64_t features = 1, length = 1;
  std::byte* sums = nullptr;
  int64_t sums_stride = 0;  // elements, of whole vectors, from one feature to the next
  bool is_fresh = false;    // nothing was there
};
struct RowConvLoops {
  void (*run)(const RowConvSums&) = nullptr;
  int64_t lanes = 1;
};

class RowConv {
 public:
  // All of them of `type`: f32, f64, or integers of 32 or 64 bits.
  static bool Takes(std::span<const ConvolutionProblem> problems, ElementType type);
  // Depthwise, with rows that lie in memory element by element: what has the groups as lanes would move all of the
  // arrays first.
  static bool AreRowsOfGroups(std::span<const ConvolutionProblem> problems);
  RowConv(std::span<const ConvolutionProblem> problems, ElementType type, int threads);
  int64_t scratch_bytes() const { return scratch_bytes_; }
  void Run(const std::byte* input, const std::byte* kernel, std::byte* result, ThreadPool& pool,
           std::byte* scratch) const;

 private:
  struct Problem {
    ConvolutionProblem p;
    std::size_t along = 0;  // the spatial dimension of the rows
    int64_t channels = 1, outputs = 1, taps = 1, length = 1;
    // Positions that a step lies apart are rows of their own, of zeros where the padding is.
    std::vector<int64_t> phases = {}, shifts = {};
    int64_t phase_length = 0, row_length = 0, input_rows = 1, result_rows = 1, outer_taps = 1;
    std::vector<Dims> outer_index = {};  // of each outer tap
    // Rows that follow each other along a dimension, of which a task has so many.
    int block_dim = -1;
    int64_t block_extent = 1, block_rows = 1, blocks = 1;
    int64_t copy_rows = 1, copy_blocks = 1;  // the same of the input
    // A task has all rows of an image and a group, and a copy of the input that it reads alone.
    bool is_alone = false;
    bool packs_kernel = true;             // else it is read where it lies
    int64_t copy = 0, packed_kernel = 0;  // bytes into the scratch
    int64_t first_copy = 0, first_pack = 0, first_task = 0;
  };
  // The index of row `row` of an array in its spatial dimensions but that of the rows, which is 0.
  static Dims RowIndex(const Problem& problem, const Dims& dims, int64_t row);
  void CopyRows(const Problem& problem, int64_t number, const std::byte* input, std::byte* to) const;
  void CopyLines(const Problem& problem, int64_t at, int64_t channels, int64_t rows, const std::byte* input,
                 std::byte* to) const;
  void CopyGroup(const Problem& problem, int64_t image, int64_t group, const std::byte* input, std::byte* to) const;
  void PackKernel(const Problem& problem, int64_t group, const std::byte* kernel, std::byte* to) const;
  // The copied rows and the kernel of a group.
  struct Sources {
    const std::byte *rows = nullptr, *kernel = nullptr;
  };
  static int64_t PlaceOfRow(const Problem& problem, int64_t image, int64_t channel, int64_t row);
  static void ChooseBlock(Problem& problem);
  void CutIntoPhases(Problem& problem) const;
  int64_t CopyBytes(const Problem& problem, int64_t channels) const;
  int64_t SumsStride(const Problem& problem, int64_t rows) const;
  static int64_t RowsWithSameTaps(const Problem& problem, const Dims& index, int64_t rows);
  void RunRows(const Problem& problem, const Dims& index, int64_t rows_count, int64_t image, int64_t group,
               const Sources& from, std::byte* result, std::byte* memory) const;
  void RunBlock(const Problem& problem, int64_t block, int64_t image, int64_t group, const Sources& from,
                std::byte* result, std::byte* memory) const;
  void RunTask(const Problem& problem, int64_t task, const std::byte* input, const std::byte* kernel,
               const std::byte* scratch, std::byte* result, std::byte* memory) const;
  int64_t KernelBytes(const Problem& problem) const;

  int width_;
  RowConvLoops loops_;
  std::vector<Problem> problems_;
  int64_t copies_ = 0, packs_ = 0, tasks_ = 0;
  int64_t sums_bytes_ = 0, pointers_bytes_ = 0, alone_bytes_ = 0, workers_ = 0, worker_bytes_ = 0, scratch_bytes_ = 0;
  double copy_nanoseconds_ = 0, nanoseconds_ = 0;
};

}  // namespace krafla::cpu
