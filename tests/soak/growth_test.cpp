// SPDX-License-Identifier: Apache-2.0
#include "growth.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <functional>

namespace krafla {
namespace {

// A sample a second, 600 of them.
std::vector<Growth> Judge(Holding holding, const std::function<double(int)>& held, GrowthRule rule) {
  std::vector<Sample> samples;
  for (int i = 0; i < 600; ++i) {
    Sample s{.seconds = static_cast<double>(i)};
    s.held.fill(100000);
    s.held[static_cast<std::size_t>(holding)] = held(i);
    samples.push_back(s);
  }
  return JudgeGrowth(samples, rule);
}

bool Grows(Holding holding, const std::function<double(int)>& held, GrowthRule rule = GrowthRule::kAnHour) {
  bool grows = false;
  for (const Growth& g : Judge(holding, held, rule)) {
    EXPECT_TRUE(g.holding == holding || !g.grows()) << HoldingName(g.holding);
    if (g.holding == holding) grows = g.grows();
  }
  return grows;
}

TEST(Growth, MemoryByMoreThanTwoMegabytesAnHourAndOnePercent) {
  EXPECT_FALSE(Grows(Holding::kMemory, [](int i) { return 100000 + i * 2000.0 / 3600; }));
  EXPECT_TRUE(Grows(Holding::kMemory, [](int i) { return 100000 + i * 2200.0 / 3600; }));
  EXPECT_FALSE(Grows(Holding::kMemory, [](int i) { return 1000000 + i * 9000.0 / 3600; }));
  EXPECT_TRUE(Grows(Holding::kMemory, [](int i) { return 1000000 + i * 11000.0 / 3600; }));
  EXPECT_FALSE(Grows(Holding::kMemory, [](int i) { return 100000 - i * 9000.0 / 3600; }));
}

TEST(Growth, WarmingUpIsNone) {
  for (const Holding holding : kHoldings) EXPECT_FALSE(Grows(holding, [](int i) { return 100.0 * std::min(i, 250); }));
}

TEST(Growth, NoiseIsNone) {
  EXPECT_FALSE(Grows(Holding::kMemory, [](int i) { return 100000 + (i * 7919 % 101) * 5.0; }));
  // A slow wave: some of its pieces rise, and so does a line over one and a half of it.
  EXPECT_FALSE(Grows(Holding::kMemory, [](int i) { return 100000 + 5000 * std::sin(i / 30.0); }));
}

TEST(Growth, ThroughNoise) {
  EXPECT_TRUE(Grows(Holding::kMemory, [](int i) { return 100000 + (i * 7919 % 101) * 5.0 + i * 4000.0 / 3600; }));
}

TEST(Growth, OneDescriptorOrThreadMore) {
  for (const Holding holding : {Holding::kDescriptors, Holding::kThreads}) {
    EXPECT_FALSE(Grows(holding, [](int i) { return 7.0 + i % 2; }));
    EXPECT_TRUE(Grows(holding, [](int i) { return 7.0 + (i >= 599); }));
    EXPECT_TRUE(Grows(holding, [](int i) { return 7.0 + i / 200; }, GrowthRule::kAsItIs));
  }
}

TEST(Growth, ShortRunsAreNotExtrapolated) {
  EXPECT_FALSE(Grows(Holding::kMemory, [](int i) { return 30000 + i * 4000.0 / 300; }, GrowthRule::kAsItIs));
  EXPECT_TRUE(Grows(Holding::kMemory, [](int i) { return 30000 + i * 4200.0 / 300; }, GrowthRule::kAsItIs));
}

TEST(Growth, SamplesAreOfThisProcess) {
  auto before = TakeSample(0, 1e9);
  ASSERT_TRUE(before) << before.error().ToString();
  const int open_file = open("/proc/self/exe", O_RDONLY);
  // Of a file: memory alone may become one with what is beside it.
  void* const mapping = mmap(nullptr, 1, PROT_READ, MAP_PRIVATE, open_file, 0);
  ASSERT_NE(mapping, MAP_FAILED);
  std::vector<char> memory(64 << 20, 1);
  auto after = TakeSample(0, 1e9);
  ASSERT_TRUE(after) << after.error().ToString();
  EXPECT_EQ(after->of(Holding::kDescriptors), before->of(Holding::kDescriptors) + 1);
  EXPECT_GT(after->of(Holding::kMemory), before->of(Holding::kMemory) + 60000);
  EXPECT_GT(after->of(Holding::kMappings), before->of(Holding::kMappings));
  EXPECT_EQ(after->of(Holding::kThreads), 1);
  munmap(mapping, 1);
  close(open_file);
}

}  // namespace
}  // namespace krafla
