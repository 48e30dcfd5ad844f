// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/few_rows.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "contraction_cases.h"

namespace krafla::cpu {
namespace {

// A batch of two matrices, whose rows lie between each other or not, dense along n or along k.
GemmProblem ProblemOf(int64_t m, int64_t n, int64_t k, bool along_depth, bool between, ElementType type) {
  GemmProblem p;
  p.m = m, p.n = n, p.k = k;
  p.lhs_type = p.rhs_type = type;
  p.batch = {2};
  const int64_t lines = along_depth ? n : k, line = along_depth ? k : n;
  const int64_t stride = between ? 2 * line : line;
  p.rhs_batch_strides = {between ? line : lines * line};
  (along_depth ? p.rhs_n_stride : p.rhs_k_stride) = stride;
  (along_depth ? p.rhs_k_stride : p.rhs_n_stride) = 1;
  p.lhs_m_stride = k, p.lhs_k_stride = 1, p.lhs_batch_strides = {m * k};
  p.result_m_stride = n, p.result_batch_strides = {m * n};
  return p;
}

// Whole numbers, whose sums are exact in every order.
void ExpectRight(const GemmProblem& p) {
  std::mt19937 random(7);
  const int64_t left = 2 * p.m * p.k, right = 2 * p.k * p.n;
  const AlignedBytes lhs = WholeNumbers(p.lhs_type, left, random), rhs = WholeNumbers(p.rhs_type, right, random);
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    const FewRows product(p, threads);
    std::vector<std::byte> scratch(static_cast<std::size_t>(product.scratch_bytes()));
    std::vector<float> result(static_cast<std::size_t>(2 * p.m * p.n), -1.0F);
    product.Run(lhs.data(), rhs.data(), std::as_writable_bytes(std::span(result)).data(), pool, scratch.data());
    int wrong = 0;
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t i = 0; i < p.m; ++i)
        for (int64_t j = 0; j < p.n; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < p.k; ++k)
            sum += ReadNumber(p.lhs_type, lhs.data(),
                              b * p.lhs_batch_strides[0] + i * p.lhs_m_stride + k * p.lhs_k_stride) *
                   ReadNumber(p.rhs_type, rhs.data(),
                              b * p.rhs_batch_strides[0] + k * p.rhs_k_stride + j * p.rhs_n_stride);
          wrong += result[static_cast<std::size_t>((b * p.m + i) * p.n + j)] != sum;
        }
    EXPECT_EQ(wrong, 0) << p.m << " x " << p.k << " x " << p.n << ", " << threads << " threads";
  }
}

TEST(FewRows, MultipliesMatricesAsTheyLie) {
  for (const ElementType type : {ElementType::kF32, ElementType::kF16, ElementType::kBF16})
    for (const bool along_depth : {false, true})
      for (const bool between : {false, true})
        for (const int64_t m : {1, 2, 3, 4, 7})
          for (const auto& [n, k] : {std::pair<int64_t, int64_t>{64, 1061}, {203, 67}, {1500, 24}}) {
            const GemmProblem p = ProblemOf(m, n, k, along_depth, between, type);
            if (FewRows::Takes(p)) ExpectRight(p);
            else EXPECT_TRUE(m == 1 || type == ElementType::kBF16);
          }
}

TEST(FewRows, TakesRowsThatAreNotDense) {
  for (const ElementType type : {ElementType::kF32, ElementType::kBF16})
    for (const int64_t k : {67, 1061}) {
      GemmProblem p = ProblemOf(4, 64, k, false, true, type);
      p.lhs_m_stride = 1, p.lhs_k_stride = p.m;
      ASSERT_TRUE(FewRows::Takes(p) || k == 67) << k;
      ExpectRight(p);
    }
}

// Equal terms, of which a single f32 sum would lose the last bits of each in the same direction.
TEST(FewRows, DeepSumsKeepTheirDigits) {
  for (const bool along_depth : {false, true}) {
    const GemmProblem p = ProblemOf(2, 2048, 16384, along_depth, false, ElementType::kF32);
    ASSERT_TRUE(FewRows::Takes(p));
    const std::vector<float> lhs(static_cast<std::size_t>(2 * p.m * p.k), 0.1F);
    const std::vector<float> rhs(static_cast<std::size_t>(2 * p.k * p.n), 0.3F);
    ThreadPool pool(1);
    const FewRows product(p, 1);
    std::vector<std::byte> scratch(static_cast<std::size_t>(product.scratch_bytes()));
    std::vector<float> result(static_cast<std::size_t>(2 * p.m * p.n));
    product.Run(std::as_bytes(std::span(lhs)).data(), std::as_bytes(std::span(rhs)).data(),
                std::as_writable_bytes(std::span(result)).data(), pool, scratch.data());
    const double right = double{0.1F} * double{0.3F} * static_cast<double>(p.k);
    for (const float x : result) ASSERT_NEAR(x, right, 2e-6 * right);
  }
}

TEST(FewRows, LeavesOneRowOfSeparateMatricesAndManyRows) {
  EXPECT_FALSE(FewRows::Takes(ProblemOf(1, 512, 512, false, false, ElementType::kF32)));
  EXPECT_FALSE(FewRows::Takes(ProblemOf(9, 512, 512, false, true, ElementType::kF32)));
  EXPECT_TRUE(FewRows::Takes(ProblemOf(1, 512, 512, true, true, ElementType::kF32)));
  EXPECT_TRUE(FewRows::Takes(ProblemOf(8, 512, 512, false, false, ElementType::kF32)));
  // Batches that share a matrix are rows of it.
  GemmProblem shared = ProblemOf(5, 512, 512, false, false, ElementType::kF32);
  EXPECT_TRUE(FewRows::Takes(shared));
  shared.rhs_batch_strides = {0};
  EXPECT_FALSE(FewRows::Takes(shared));
}

}  // namespace
}  // namespace krafla::cpu
