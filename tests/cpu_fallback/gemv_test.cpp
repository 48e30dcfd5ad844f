// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/gemv.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

namespace krafla::cpu {
namespace {

TEST(Gemv, AThreadHasOnePartOfShortRows) {
  EXPECT_EQ(ColumnsOfPart(4864, 2, 1, 64, 8192), 4864);
  EXPECT_EQ(ColumnsOfPart(4864, 2, 2, 64, 8192), 2432);
  EXPECT_EQ(ColumnsOfPart(4864, 1, 3, 64, 8192), 1632);  // in whole vectors
  EXPECT_EQ(ColumnsOfPart(896, 1, 64, 64, 8192), 64);    // and not fewer than are worth it
}

// Then one that is late leaves the others something.
TEST(Gemv, AThreadHasTwoPartsOfLongRows) {
  EXPECT_EQ(ColumnsOfPart(16384, 2, 2, 64, 8192), 4096);
  EXPECT_EQ(ColumnsOfPart(32000, 4, 1, 64, 8000), 8000);
  EXPECT_EQ(ColumnsOfPart(32000, 4, 2, 64, 8000), 8000);
}

TEST(Gemv, SumsAreTheSameOfAnyNumberOfThreads) {
  GemmProblem problem;
  problem.m = 1, problem.n = 4880, problem.k = 37;
  problem.lhs_k_stride = problem.rhs_n_stride = 1;
  problem.lhs_m_stride = problem.k, problem.rhs_k_stride = problem.result_m_stride = problem.n;
  problem.lhs_type = problem.rhs_type = problem.accumulate_type = ElementType::kF32;
  ASSERT_TRUE(Gemv::Takes(problem));
  std::vector<float> vector(static_cast<std::size_t>(problem.k));
  std::vector<float> matrix(static_cast<std::size_t>(problem.k * problem.n));
  uint32_t seed = 1;
  const auto next = [&] { return static_cast<float>((seed = seed * 1664525 + 1013904223) >> 8) / 16777216.0f - 0.5f; };
  for (float& v : vector) v = next();
  for (float& v : matrix) v = next();
  std::vector<float> one;
  for (const int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    const Gemv product(problem);
    std::vector<std::byte> scratch(static_cast<std::size_t>(product.scratch_bytes()));
    std::vector<float> sums(static_cast<std::size_t>(problem.n), -1.0f);
    product.Run(std::as_bytes(std::span(vector)).data(), std::as_bytes(std::span(matrix)).data(),
                std::as_writable_bytes(std::span(sums)).data(), pool, scratch.data());
    if (one.empty()) one = sums;
    EXPECT_EQ(sums, one) << threads << " threads";
  }
  for (std::size_t j = 0; j < one.size(); j += 61) {
    double sum = 0;
    for (std::size_t k = 0; k < vector.size(); ++k) sum += double{vector[k]} * double{matrix[k * one.size() + j]};
    EXPECT_NEAR(one[j], sum, 1e-5);
  }
}

}  // namespace
}  // namespace krafla::cpu
