// SPDX-License-Identifier: Apache-2.0
// Products with a vector: a matter of memory bandwidth alone.
#pragma once

#include "cpu_fallback/kernels/gemm.h"

namespace krafla::cpu {

// The inner loops, each for a type of sums and one of the matrix.
struct GemvLoops {
  // vector, matrix, k, stride, n, result: the matrix dense along k, or along n.
  using VectorFn = void (*)(const void*, const void*, int64_t, int64_t, int64_t, void*);
  VectorFn by_columns = nullptr, by_rows = nullptr;
  // lhs, its stride, rhs, its stride, k, count, result
  void (*rows_by_rows)(const void*, int64_t, const void*, int64_t, int64_t, int64_t, void*) = nullptr;
};

// How many of a matrix's columns, which lie side by side in its rows and have so many bytes each, or less, a thread
// takes at a time: `least` to `most`. Rows that are read piece by piece cost what the processor fetches behind the end
// of each piece, so a thread has one part of all columns, and two only where these are long.
int64_t ColumnsOfPart(int64_t columns, int64_t bytes, int threads, int64_t least, int64_t most);

// Nulls where there are none.
GemvLoops FindGemvLoops(ElementType sum, ElementType matrix);

// A matrix that is dense along k or n, in f32, f16 or bf16 (summed in f32), f64 (in f64), or integers of 8 to 32 bits
// (in 32 bits). The vector is of any type that can be widened to the sums'.
class Gemv {
 public:
  static bool Takes(const GemmProblem& problem);
  explicit Gemv(const GemmProblem& problem);
  int64_t scratch_bytes() const { return scratch_bytes_; }
  void Run(const std::byte* lhs, const std::byte* rhs, std::byte* result, ThreadPool& pool, std::byte* scratch) const;

 private:
  void RunByRows(const std::byte* lhs, const std::byte* rhs, std::byte* result, ThreadPool& pool) const;

  GemmProblem problem_;  // with m == 1: operands exchanged where n was
  bool exchanged_ = false;
  bool direct_ = false;      // the vectors are read where they lie
  bool is_by_rows_ = false;  // a batch of single products
  GemvLoops loops_;
  int64_t batches_ = 1;
  int64_t chunks_ = 1;  // of k, when n alone does not keep the threads busy
  int64_t vector_bytes_ = 0, partial_bytes_ = 0, scratch_bytes_ = 0;
};

}  // namespace krafla::cpu
