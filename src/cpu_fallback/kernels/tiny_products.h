// SPDX-License-Identifier: Apache-2.0
// Batches of products of matrices so small that a vector holds whole ones: each step along k is two permutations, a
// multiplication and an addition, of as many matrices as fit.
#pragma once

#include <array>
#include <optional>

#include "cpu_fallback/kernels/gemm.h"

namespace krafla::cpu {

inline constexpr int64_t kTinyDepth = 8;  // the largest k: products of so few terms are rounded one by one, as in XLA

class TinyProducts {
 public:
  // Nothing where matrices do not fit, or a batch is too short to be worth it.
  static std::optional<TinyProducts> Make(const GemmProblem& problem);
  void Run(const std::byte* lhs, const std::byte* rhs, std::byte* result, ThreadPool& pool) const;

  // What a line of matrices needs: `count` of them with these strides, elements.
  struct Line {
    int64_t count = 0, lhs_stride = 0, rhs_stride = 0;
    int64_t together = 1;                // matrices of a vector
    int64_t lhs_span = 0, rhs_span = 0;  // elements from the first to the last of one matrix, both included
    int64_t size = 0;                    // of a result, dense
    int64_t depth = 0;
    // Which element of a vector of the operands each lane multiplies, for each step along k.
    std::array<int32_t, kTinyDepth * 16> lhs_lanes{}, rhs_lanes{};
  };

 private:
  GemmProblem problem_;  // without the line
  Line line_;
};

}  // namespace krafla::cpu
