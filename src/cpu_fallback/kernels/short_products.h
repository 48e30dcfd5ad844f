// SPDX-License-Identifier: Apache-2.0
// Batches of products of f64 matrices of up to 16 columns, dense along them: rows of the result stay in registers, and
// nothing is packed. oneDNN has no products of f64.
#pragma once

#include "cpu_fallback/kernels/gemm.h"

namespace krafla::cpu {

class ShortProducts {
 public:
  static bool Takes(const GemmProblem& problem);
  explicit ShortProducts(const GemmProblem& problem) : problem_(problem) {}
  void Run(const std::byte* lhs, const std::byte* rhs, std::byte* result, ThreadPool& pool) const;

 private:
  GemmProblem problem_;
};

}  // namespace krafla::cpu
