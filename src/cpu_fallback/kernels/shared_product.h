// SPDX-License-Identifier: Apache-2.0
// A batch of products of one matrix with many narrow ones (a resize: the weights of a dimension by the channels of each
// line). The narrow ones' columns become the rows of a register tile, so that its vectors run along the shared matrix.
#pragma once

#include "cpu_fallback/kernels/gemm.h"

namespace krafla::cpu {

class SharedProduct {
 public:
  static bool Takes(const GemmProblem& problem);
  SharedProduct(const GemmProblem& problem, int threads);
  int64_t scratch_bytes() const { return scratch_bytes_; }
  void Run(const std::byte* lhs, const std::byte* rhs, std::byte* result, ThreadPool& pool, std::byte* scratch) const;

 private:
  void Pack(const std::byte* lhs, std::byte* packed, std::byte* staging) const;

  GemmProblem problem_;
  PointerTile tile_;
  int64_t group_ = 0;     // rows of the shared matrix in a panel
  int64_t together_ = 1;  // narrow matrices of a task
  int64_t batches_ = 1;
  int64_t packed_bytes_ = 0, wide_bytes_ = 0, worker_bytes_ = 0, scratch_bytes_ = 0;
};

}  // namespace krafla::cpu
