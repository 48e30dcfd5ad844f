// SPDX-License-Identifier: Apache-2.0
// Batches of products of small matrices, of two vectors of columns at the most: rows of the result stay in registers. A
// right side that is not dense along its columns, and sides of narrow types, are put in order before, for some products
// at a time.
#pragma once

#include "cpu_fallback/kernels/gemm.h"

namespace krafla::cpu {

class ShortProducts {
 public:
  static bool Takes(const GemmProblem& problem);
  ShortProducts(const GemmProblem& problem, int threads);
  int64_t scratch_bytes() const { return scratch_bytes_; }
  void Run(const std::byte* lhs, const std::byte* rhs, std::byte* result, ThreadPool& pool, std::byte* scratch) const;

 private:
  // Matrices as they lie, or as the columns of a matrix beside each other in the type of the sums.
  struct Side {
    ElementType type = ElementType::kF32;
    int64_t lines = 1, columns = 1;  // of the matrix; columns lie beside each other in a copy
    int64_t line_stride = 0, column_stride = 0, matrix_stride = 0;
    bool copies = false, widens = false;
    // `count` matrices, or the one that all products have.
    const std::byte* Prepare(const std::byte* from, int64_t count, ElementType sums, std::byte* to,
                             std::byte* narrow) const;
    int64_t stride() const;  // between matrices that are prepared, elements
  };

  GemmProblem problem_;  // with the strides of the copies
  Side lhs_, rhs_;
  int64_t together_ = 1;  // products of a call, whose sides are prepared before
  int64_t rhs_copy_ = 0, narrow_ = 0, worker_bytes_ = 0, scratch_bytes_ = 0;
};

}  // namespace krafla::cpu
