// SPDX-License-Identifier: Apache-2.0
// Products of matrices and convolutions of arrays that lie in every way: right to the bit, and nothing outside of them
// is written.
#include <gtest/gtest.h>

#include "base/thread_pool.h"
#include "cpu_fallback/executor/onednn.h"
#include "strided_arrays.h"

namespace krafla::cpu {
namespace {

void Run(const OneDnnProblem& problem, int threads, Array& a, Array& b, Array& result) {
  ThreadPool pool(threads);
  std::vector<std::byte> scratch(static_cast<std::size_t>(problem.scratch_bytes()) + 64),
      kept(static_cast<std::size_t>(problem.kept_bytes()) + 64);
  const void* read = b.data();
  if (problem.kept_bytes() > 0) {
    ASSERT_TRUE(problem.Keep(b.data(), pool, Aligned64(scratch), Aligned64(kept)));
    if (!problem.reads_b()) read = nullptr;
  }
  ASSERT_TRUE(problem.Run(a.data(), read, result.data(), pool, Aligned64(scratch), Aligned64(kept)));
  EXPECT_TRUE(result.MarginsAreUntouched());
}

void CheckMatmul(uint32_t seed, ElementType type, ElementType result_type) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  RandomArrays random(seed);
  Dims batch, a_dims, b_dims;
  for (int64_t rank = random.Pick({0, 1, 1, 2, 2, 3}); rank > 0; --rank) {
    const int64_t size = random.Pick({2, 3, 5, 8});
    batch.push_back(size);
    a_dims.push_back(random.OneIn(4) ? 1 : size);
    b_dims.push_back(random.OneIn(4) ? 1 : size);
    if (a_dims.back() == 1 && b_dims.back() == 1) a_dims.back() = size;
  }
  const int64_t m = random.Pick({1, 2, 3, 4, 5, 8, 16, 17, 33, 64}),
                n = random.Pick({1, 2, 3, 4, 5, 8, 16, 17, 33, 64});
  const int64_t k = random.Pick({1, 2, 3, 5, 8, 16, 17, 33, 64});
  a_dims.push_back(m), a_dims.push_back(k);
  b_dims.push_back(k), b_dims.push_back(n);
  Dims dims = batch;
  dims.push_back(m), dims.push_back(n);
  Array a = random.Lay(a_dims, type, false), b = random.Lay(b_dims, type, false),
        result = random.Lay(dims, result_type, true);
  const int threads = static_cast<int>(random.Pick({1, 3}));
  const auto problem = MakeOneDnnMatmul(a.view, b.view, result.view, threads);
  if (problem == nullptr) return;
  random.Fill(a), random.Fill(b);
  Run(*problem, threads, a, b, result);
  int64_t wrong = 0;
  std::vector<int64_t> index(dims.size(), 0);
  do {
    std::vector<int64_t> row = index, column = index;
    double sum = 0;
    for (int64_t i = 0; i < k; ++i) {
      row.back() = i;
      column[dims.size() - 2] = i;
      sum += LoadWhole(a, OffsetOf(a.view, row)) * LoadWhole(b, OffsetOf(b.view, column));
    }
    wrong += LoadWhole(result, OffsetOf(result.view, index)) == sum ? 0 : 1;
  } while (NextIndex(index, dims));
  EXPECT_EQ(wrong, 0) << m << " x " << k << " x " << n << ", " << batch.size() << " batch dimensions";
}

// oneDNN's result, where it takes the problem, beside plain sums.
void JudgeConvolution(RandomArrays& random, const ConvolutionProblem& p, Array& a, Array& b, Array& to) {
  const int threads = static_cast<int>(random.Pick({1, 3}));
  const auto problem = MakeOneDnnConvolutions(std::span(&p, 1), threads, /*keeps_kernel=*/random.OneIn(2));
  if (problem == nullptr) return;
  random.Fill(a), random.Fill(b);
  Run(*problem, threads, a, b, to);
  const Dims &input = p.input.dims, &kernel = p.kernel.dims, &result = p.result.dims;
  const int64_t out = kernel[0], in = kernel[1];
  const auto groups = p.window.groups;
  Dims taps(kernel.begin() + 1, kernel.end());
  int64_t wrong = 0;
  std::vector<int64_t> index(result.size(), 0);
  do {
    double sum = 0;
    std::vector<int64_t> tap(taps.size(), 0);
    do {
      std::vector<int64_t> from = {index[0], index[1] / (out / groups) * in + tap[0]}, weight = {index[1], tap[0]};
      bool inside = true;
      for (std::size_t d = 0; d < p.window.strides.size(); ++d) {
        const int64_t x =
            index[d + 2] * p.window.strides[d] - p.window.padding_low[d] + tap[d + 1] * p.window.dilations[d];
        inside = inside && x >= 0 && x < input[d + 2];
        from.push_back(x);
        weight.push_back(tap[d + 1]);
      }
      if (inside) sum += LoadWhole(a, OffsetOf(a.view, from)) * LoadWhole(b, OffsetOf(b.view, weight));
    } while (NextIndex(tap, taps));
    wrong += LoadWhole(to, OffsetOf(to.view, index)) == sum ? 0 : 1;
  } while (NextIndex(index, result));
  EXPECT_EQ(wrong, 0) << ElementTypeName(p.kernel.type) << ", " << groups << " groups, input "
                      << testing::PrintToString(input) << " kernel " << testing::PrintToString(kernel) << " result "
                      << testing::PrintToString(result) << " strides " << testing::PrintToString(p.window.strides)
                      << " padding " << testing::PrintToString(p.window.padding_low) << " dilations "
                      << testing::PrintToString(p.window.dilations) << ", " << threads << " threads";
}

void CheckConvolution(uint32_t seed, ElementType type, ElementType result_type) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  RandomArrays random(seed);
  const int64_t spatial = random.Pick({1, 2, 2, 3}), groups = random.Pick({1, 1, 1, 2, 4, 8}),
                batch = random.Pick({1, 2, 3});
  const int64_t in = groups >= 4 ? random.Pick({1, 1, 2}) : random.Pick({1, 3, 4, 8, 17, 32}),
                out = groups * random.Pick({1, 2, 4, 8, 16});
  ConvolutionProblem p;
  p.window.groups = groups;
  Dims input = {batch, in * groups}, kernel = {out, in}, result = {batch, out};
  for (int64_t d = 0; d < spatial; ++d) {
    const int64_t size = random.Pick({1, 3, 5, 7, 8, 12}), taps = random.Pick({1, 1, 2, 3, 3, 4});
    p.window.strides.push_back(random.Pick({1, 1, 2, 3}));
    p.window.dilations.push_back(random.Pick({1, 1, 1, 2}));
    p.window.padding_low.push_back(random.Pick({0, 0, 1, 2}));
    p.window.padding_high.push_back(random.Pick({0, 0, 1, 3}));
    const int64_t reach = (taps - 1) * p.window.dilations.back() + 1;
    const int64_t padded = size + p.window.padding_low.back() + p.window.padding_high.back();
    if (padded < reach) return;
    input.push_back(size);
    kernel.push_back(taps);
    result.push_back((padded - reach) / p.window.strides.back() + 1);
  }
  Array a = random.Lay(input, type, false), b = random.Lay(kernel, type, false),
        to = random.Lay(result, result_type, false);
  p.input = a.view, p.kernel = b.view, p.result = to.view;
  JudgeConvolution(random, p, a, b, to);
}

// Sizes at which dimensions vanish, which random ones seldom meet together.
void SweepConvolutions(ElementType type, ElementType result_type) {
  const std::vector<std::size_t> kLast = {0, 2, 3, 1}, kFirst = {0, 1, 2, 3};
  RandomArrays random(7);
  for (const int64_t groups : {1, 4})
    for (const int64_t in : {1, 2, 16})
      for (const int64_t out : {1, 4})
        for (const int64_t height : {1, 5})
          for (const int64_t width : {1, 3, 8})
            for (const int64_t rows : {1, 2})
              for (const int64_t columns : {1, 2, 3})
                for (const int64_t stride : {1, 3})
                  for (const int64_t padding : {0, 1, 2}) {
                    if (rows > height || columns > width + 2 * padding) continue;
                    const Dims result = {1, groups * out, height - rows + 1,
                                         (width + 2 * padding - columns) / stride + 1};
                    for (const bool channels_last : {false, true}) {
                      const auto lay = [&](Dims dims, ElementType of) {
                        return random.Lay(std::move(dims), of, channels_last ? kLast : kFirst, false);
                      };
                      Array a = lay({1, groups * in, height, width}, type),
                            b = lay({groups * out, in, rows, columns}, type), to = lay(result, result_type);
                      JudgeConvolution(random,
                                       {a.view,
                                        b.view,
                                        to.view,
                                        {.strides = {1, stride},
                                         .dilations = {1, 1},
                                         .padding_low = {0, padding},
                                         .padding_high = {0, padding},
                                         .groups = groups}},
                                       a, b, to);
                    }
                  }
}

TEST(OneDnn, MultipliesHoweverMatricesLie) {
  for (uint32_t seed = 0; seed < 2000; ++seed) CheckMatmul(seed, ElementType::kF32, ElementType::kF32);
}
TEST(OneDnn, MultipliesNarrowTypes) {
  for (uint32_t seed = 0; seed < 1000; ++seed) CheckMatmul(seed, ElementType::kBF16, ElementType::kF32);
  for (uint32_t seed = 0; seed < 1000; ++seed) CheckMatmul(seed, ElementType::kS8, ElementType::kS32);
  for (uint32_t seed = 0; seed < 500; ++seed) CheckMatmul(seed, ElementType::kF16, ElementType::kF32);
}
TEST(OneDnn, ConvolvesHoweverArraysLie) {
  for (uint32_t seed = 0; seed < 400; ++seed) CheckConvolution(seed, ElementType::kF32, ElementType::kF32);
}
TEST(OneDnn, ConvolvesNarrowTypes) {
  for (uint32_t seed = 0; seed < 1200; ++seed) CheckConvolution(seed, ElementType::kBF16, ElementType::kF32);
  for (uint32_t seed = 0; seed < 600; ++seed) CheckConvolution(seed, ElementType::kS8, ElementType::kS32);
  for (uint32_t seed = 0; seed < 200; ++seed) CheckConvolution(seed, ElementType::kF16, ElementType::kF32);
}

TEST(OneDnn, ConvolvesWhereDimensionsVanish) {
  SweepConvolutions(ElementType::kF32, ElementType::kF32);
  SweepConvolutions(ElementType::kBF16, ElementType::kF32);
  SweepConvolutions(ElementType::kS8, ElementType::kS32);
}

}  // namespace
}  // namespace krafla::cpu
