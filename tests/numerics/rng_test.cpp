// SPDX-License-Identifier: Apache-2.0
// The generators against the known answers that come with Random123 (kat_vectors), and the layout of an instruction.
#include "numerics/rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "numerics/scalar_ops.h"
#include "test_ops.h"

namespace krafla {
namespace {

TEST(Rng, ThreeFryKnownAnswers) {
  using W = std::array<uint32_t, 2>;
  const ScalarOps o;
  EXPECT_EQ(ThreeFry2x32(o, W{0, 0}, W{0, 0}), (W{0x6b200159u, 0x99ba4efeu}));
  EXPECT_EQ(ThreeFry2x32(o, W{~0u, ~0u}, W{~0u, ~0u}), (W{0x1cb996fcu, 0xbb002be7u}));
  EXPECT_EQ(ThreeFry2x32(o, W{0x243f6a88u, 0x85a308d3u}, W{0x13198a2eu, 0x03707344u}), (W{0xc4923a9cu, 0x483df7a0u}));
}

TEST(Rng, PhiloxKnownAnswers) {
  using W = std::array<uint32_t, 4>;
  using K = std::array<uint32_t, 2>;
  const ScalarOps o;
  EXPECT_EQ(Philox4x32(o, W{0, 0, 0, 0}, K{0, 0}), (W{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(Philox4x32(o, W{~0u, ~0u, ~0u, ~0u}, K{~0u, ~0u}), (W{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(Philox4x32(o, W{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, K{0xa4093822u, 0x299f31d0u}),
            (W{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(Rng, PhiloxLayout) {
  const std::vector<uint64_t> state = {7, 100, 3};
  const std::vector<int64_t> dims = {3, 3};
  const auto plan = PlanRng(RngMethod::kPhilox, 3, dims, 32);
  ASSERT_TRUE(plan.has_value());
  const RngStart start = StartOf(*plan, state);
  const auto block = Philox4x32(ScalarOps{}, std::array<uint32_t, 4>{101, 0, 3, 0}, std::array<uint32_t, 2>{7, 0});
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(RngElement(*plan, start, 4 + i), block[i]);
  EXPECT_EQ(NextState(*plan, state), (std::array<uint64_t, 3>{7, 103, 3}));
  const auto wide = PlanRng(RngMethod::kPhilox, 3, dims, 64);
  EXPECT_EQ(RngElement(*wide, start, 3), uint64_t{block[3]} << 32 | block[2]);
  EXPECT_EQ(NextState(*wide, state), (std::array<uint64_t, 3>{7, 105, 3}));
  const auto narrow = PlanRng(RngMethod::kPhilox, 3, dims, 8);
  EXPECT_EQ(RngElement(*narrow, start, 5), block[1] & 0xff);
}

TEST(Rng, CounterCarriesIntoTheUpperHalf) {
  const std::vector<uint64_t> state = {7, ~uint64_t{0}, 3};
  const std::vector<int64_t> dims = {8};
  const auto plan = PlanRng(RngMethod::kPhilox, 3, dims, 32);
  const auto block = Philox4x32(ScalarOps{}, std::array<uint32_t, 4>{0, 0, 4, 0}, std::array<uint32_t, 2>{7, 0});
  EXPECT_EQ(RngElement(*plan, StartOf(*plan, state), 4), block[0]);
  EXPECT_EQ(NextState(*plan, state), (std::array<uint64_t, 3>{7, 1, 4}));
}

TEST(Rng, ThreeFryHalvesTheFirstEvenDimension) {
  const std::vector<uint64_t> state = {5, 1000};
  const std::vector<int64_t> dims = {3, 4, 5};
  const auto plan = PlanRng(RngMethod::kThreeFry, 2, dims, 32);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->blocks, 30u);
  const RngStart start = StartOf(*plan, state);
  for (uint32_t a = 0; a < 3; ++a) {
    for (uint32_t b = 0; b < 4; ++b) {
      for (uint32_t c = 0; c < 5; ++c) {
        const uint32_t counter = 1000 + (a * 2 + b / 2) * 5 + c;
        const auto block =
            ThreeFry2x32(ScalarOps{}, std::array<uint32_t, 2>{counter, 0}, std::array<uint32_t, 2>{5, 0});
        EXPECT_EQ(RngElement(*plan, start, (a * 4 + b) * 5 + c), block[b % 2]);
      }
    }
  }
  EXPECT_EQ(NextState(*plan, state), (std::array<uint64_t, 3>{5, 1030, 0}));
}

TEST(Rng, ShaderWordsAreTheElements) {
  const TestOps o;
  for (RngMethod algorithm : {RngMethod::kThreeFry, RngMethod::kPhilox}) {
    for (int words : {2, 3}) {
      if (algorithm == RngMethod::kThreeFry && words == 3) continue;
      for (int bits : {8, 16, 32, 64}) {
        for (const std::vector<int64_t>& dims :
             {std::vector<int64_t>{}, {1}, {7}, {3, 5, 7}, {2, 1, 4}, {3, 4, 5}, {129}}) {
          for (uint64_t counter : {uint64_t{0}, uint64_t{0xffffffff}, ~uint64_t{0}}) {
            const std::vector<uint64_t> state = {0x123456789abcdef0u, counter, ~uint64_t{0}};
            const std::span<const uint64_t> used(state.data(), static_cast<std::size_t>(words));
            const auto plan = PlanRng(algorithm, words, dims, bits);
            ASSERT_TRUE(plan.has_value());
            const RngStart start = StartOf(*plan, used);
            const auto half = [](uint64_t x, int i) { return TestOps::I{static_cast<uint32_t>(x >> (32 * i))}; };
            uint64_t count = 1;
            for (int64_t d : dims) count *= static_cast<uint64_t>(d);
            for (uint64_t i = 0; i < count; ++i) {
              const auto got = RngWords(o, *plan, {half(start.key, 0), half(start.key, 1)},
                                        {half(start.counter_low, 0), half(start.counter_low, 1),
                                         half(start.counter_high, 0), half(start.counter_high, 1)},
                                        TestOps::I{static_cast<uint32_t>(i)});
              const uint64_t all = uint64_t{got[1].v} << 32 | got[0].v;
              const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
              ASSERT_EQ(all & mask, RngElement(*plan, start, i)) << bits << " bits, element " << i;
            }
          }
        }
      }
    }
  }
  EXPECT_FALSE(o.broke_a_precondition());
}

TEST(Rng, RefusesAWrongState) {
  const std::vector<int64_t> dims = {4};
  EXPECT_FALSE(PlanRng(RngMethod::kThreeFry, 3, dims, 32).has_value());
  EXPECT_FALSE(PlanRng(RngMethod::kPhilox, 1, dims, 32).has_value());
  EXPECT_FALSE(PlanRng(RngMethod::kPhilox, 4, dims, 32).has_value());
  EXPECT_FALSE(PlanRng(RngMethod::kPhilox, 2, dims, 128).has_value());
  const std::vector<int64_t> huge = {int64_t{1} << 40, int64_t{1} << 40};
  EXPECT_FALSE(PlanRng(RngMethod::kPhilox, 2, huge, 32).has_value());
}

TEST(Rng, Distributions) {
  const std::vector<uint64_t> state = {42, 0};
  const std::vector<int64_t> dims = {20'000};
  const auto plan = PlanRng(RngMethod::kPhilox, 2, dims, 32);
  const RngStart start = StartOf(*plan, state);
  double sum = 0, squares = 0, normal_sum = 0, normal_squares = 0;
  for (uint64_t i = 0; i < 20'000; i += 2) {
    const auto bits0 = static_cast<uint32_t>(RngElement(*plan, start, i));
    const auto bits1 = static_cast<uint32_t>(RngElement(*plan, start, i + 1));
    for (uint32_t bits : {bits0, bits1}) {
      const float u = UniformFloat(bits, -2, 3);
      ASSERT_GE(u, -2.0f);
      ASSERT_LT(u, 3.0f);
      sum += static_cast<double>(u);
      squares += static_cast<double>(u) * static_cast<double>(u);
      const auto n = static_cast<int32_t>(UniformInt32(bits, static_cast<uint32_t>(-5), 5));
      ASSERT_TRUE(n >= -5 && n < 5);
    }
    for (float z : NormalPair(UniformFloat(bits0, 0, 1), UniformFloat(bits1, 0, 1))) {
      normal_sum += static_cast<double>(z);
      normal_squares += static_cast<double>(z) * static_cast<double>(z);
    }
  }
  EXPECT_NEAR(sum / 20'000, 0.5, 0.05);
  EXPECT_NEAR(squares / 20'000 - 0.25, 25.0 / 12, 0.05);
  EXPECT_NEAR(normal_sum / 20'000, 0, 0.03);
  EXPECT_NEAR(normal_squares / 20'000, 1, 0.05);
  EXPECT_EQ(UniformInt32(9, 4, 4), 4u);
  EXPECT_EQ(UniformFloat(~0u, 0, 1), 1 - 0x1p-23f);
}

}  // namespace
}  // namespace krafla
