// SPDX-License-Identifier: Apache-2.0
// Products of up to eight rows: as of one row (gemv.h), the matrix is read once and where it lies, and its bandwidth is
// what they should take. What brings a matrix into an order of its own first takes twice as long. Matrices of a batch
// whose rows lie between each other are read side by side, and so are those of single rows.
#pragma once

#include "cpu_fallback/kernels/gemm.h"

namespace krafla::cpu {

// The inner loops, each for a type of the matrix; sums are f32.
struct FewRowsLoops {
  // rows, their stride, how many, matrix, its stride, k, n, memory for rows x n sums, result, its stride:
  // result[r, j] = sum over k, the matrix dense along n, or along k.
  using RowsFn = void (*)(const float*, int64_t, int64_t, const void*, int64_t, int64_t, int64_t, float*, float*,
                          int64_t);
  RowsFn by_rows = nullptr, by_columns = nullptr;
};

// A matrix that is dense along k or n, in f32, f16 or bf16; rows of any type that can be widened to f32.
class FewRows {
 public:
  static bool Takes(const GemmProblem& problem);
  explicit FewRows(const GemmProblem& problem, int threads);
  int64_t scratch_bytes() const { return scratch_bytes_; }
  void Run(const std::byte* lhs, const std::byte* rhs, std::byte* result, ThreadPool& pool, std::byte* scratch) const;

 private:
  struct Part {
    int64_t batch = 0, number = 0;
  };
  // Columns [begin, end) of the rows of batch `b` in f32: in `left`, or where they lie. `raw`: memory for a row of
  // them.
  const float* Widen(const std::byte* lhs, int64_t b, int64_t begin, int64_t end, std::byte* left,
                     std::byte* raw) const;
  Part PartAt(int64_t task, int64_t parts) const;
  void RunColumns(const std::byte* lhs, const std::byte* rhs, std::byte* result, ThreadPool& pool,
                  std::byte* scratch) const;
  void RunChunks(const std::byte* lhs, const std::byte* rhs, std::byte* result, ThreadPool& pool,
                 std::byte* scratch) const;

  GemmProblem problem_;
  FewRowsLoops loops_;
  int64_t batches_ = 1;
  bool along_depth_ = false;     // the matrix is dense along k
  bool batches_inside_ = false;  // what lies side by side in memory is read so
  int64_t chunks_ = 1;           // of k, where columns are too few to share
  int64_t most_columns_ = 0;     // of a task
  bool direct_ = false;          // rows are read where they lie
  int64_t left_stride_ = 0;
  int64_t left_bytes_ = 0, raw_bytes_ = 0, partial_bytes_ = 0, worker_bytes_ = 0, scratch_bytes_ = 0;
};

}  // namespace krafla::cpu
