// SPDX-License-Identifier: Apache-2.0
// Convolutions whose window has more elements than their result has positions, as the gradients of kernels have: a
// product of matrices for each position, whose depth is what the window sees. Rows are the images, columns the output
// channels; both lie side by side in memory, or in a copy, so that nothing is gathered. Of few of them vectors go along
// the depth, where that lies in memory one behind the other, or in copies of which it does: along the dimension of the
// window that has the most elements.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "cpu_fallback/kernels/convolution_problem.h"

namespace krafla::cpu {

// Places of the depth that follow each other at steps that all runs have.
struct DepthRun {
  const std::byte *rows = nullptr, *columns = nullptr;
  int64_t count = 0;
};
struct DepthSums {
  std::span<const DepthRun> runs;
  int64_t rows_step = 1, columns_step = 1;  // elements
  int64_t first_row = 0, rows = 1, vectors = 1;
  std::byte* totals = nullptr;  // which are added to
  int64_t totals_step = 0;      // from row to row, elements
};
// The same of runs whose steps are 1.
struct DepthDots {
  std::span<const DepthRun> runs;
  int64_t rows = 1, row_step = 0, columns = 1, column_step = 0;  // elements
  std::byte* totals = nullptr;                                   // which are added to
  int64_t totals_step = 0;
};
struct DepthLoops {
  void (*run)(const DepthSums&) = nullptr;
  void (*dots)(const DepthDots&) = nullptr;
  int64_t lanes = 1, most_vectors = 1;
};

class LongWindowConv {
 public:
  // Of `type`, f32 or f64, without groups. False: there are better ways.
  static bool Takes(std::span<const ConvolutionProblem> problems, ElementType type);
  // So few sums of so many products that hardware with tiles of matrices fills none.
  static bool AreFewSums(const ConvolutionProblem& problem);
  LongWindowConv(const ConvolutionProblem& problem, ElementType type, int threads);

  int64_t scratch_bytes() const { return scratch_bytes_; }
  void Run(const std::byte* input, const std::byte* kernel, std::byte* result, ThreadPool& pool,
           std::byte* scratch) const;

 private:
  // An operand whose first dimension lies side by side, in whole vectors where it is the columns; where vectors go
  // along the depth it is the last dimension that does.
  struct Operand {
    TensorView view;
    int64_t copy = -1;       // in the scratch; -1: it is read where it lies
    TensorView source = {};  // what is copied
  };
  // `padded`: how many elements its first dimension has in a copy.
  void Place(Operand& operand, int64_t padded, int64_t& size) const;
  void PlaceAlongDepth(Operand& operand, int64_t& size) const;
  const std::byte* Prepare(const Operand& operand, const std::byte* from, ThreadPool& pool, std::byte* scratch) const;
  // The runs [begin, end) of the features and outer taps that position `at` sees.
  std::size_t FindRuns(const Dims& at, int64_t begin, int64_t end, const std::byte* input, const std::byte* kernel,
                       DepthRun* out) const;
  void RunTask(int64_t task, int64_t begin, int64_t end, const std::byte* input, const std::byte* kernel,
               std::byte* totals, std::byte* memory) const;

  int width_;
  DepthLoops loops_;
  ConvolutionProblem p_;
  bool is_along_depth_ = false;
  Operand input_, kernel_;
  int64_t rows_ = 1, columns_ = 1, positions_ = 1;  // columns: whole vectors
  int64_t runs_ = 1, chunk_runs_ = 1;
  Dims outer_taps_;  // features, then the taps but the innermost
  double task_nanoseconds_ = 0;
  int64_t totals_ = 0, workers_ = 0, worker_bytes_ = 0, scratch_bytes_ = 0;
};

}  // namespace krafla::cpu
