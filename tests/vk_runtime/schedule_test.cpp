// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/schedule.h"

#include <gtest/gtest.h>

#include <random>

namespace krafla::vk {
namespace {

using Levels = std::vector<std::vector<uint32_t>>;

Step MakeStep(std::vector<BufferSlice> reads, std::vector<BufferSlice> writes) {
  Launch launch;
  for (auto& s : reads) {
    launch.bindings.push_back(s);
    launch.access.push_back(Access::kRead);
  }
  for (auto& s : writes) {
    launch.bindings.push_back(s);
    launch.access.push_back(Access::kWrite);
  }
  return launch;
}
std::vector<uint32_t> Own(std::size_t n) {
  std::vector<uint32_t> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<uint32_t>(i);
  return out;
}

TEST(Schedule, ReadAfterWriteWaits) {
  std::vector<Step> steps = {MakeStep({{0, 0, 64}}, {{1, 0, 64}}), MakeStep({{1, 0, 64}}, {{2, 0, 64}})};
  EXPECT_EQ(ScheduleSteps(steps, Own(3)), (Levels{{0}, {1}}));
}

TEST(Schedule, WriteAfterReadWaits) {
  std::vector<Step> steps = {MakeStep({{0, 0, 64}}, {{1, 0, 64}}), MakeStep({{2, 0, 64}}, {{0, 32, 4}})};
  EXPECT_EQ(ScheduleSteps(steps, Own(3)), (Levels{{0}, {1}}));
}

TEST(Schedule, WriteAfterWriteWaits) {
  std::vector<Step> steps = {Fill{{0, 0, 64}, 0}, Fill{{0, 60, 8}, 1}};
  EXPECT_EQ(ScheduleSteps(steps, Own(1)), (Levels{{0}, {1}}));
}

TEST(Schedule, ReadsOfOneBufferShareALevel) {
  std::vector<Step> steps = {MakeStep({{0, 0, 64}}, {{1, 0, 64}}), MakeStep({{0, 0, 64}}, {{2, 0, 64}})};
  EXPECT_EQ(ScheduleSteps(steps, Own(3)), (Levels{{0, 1}}));
}

TEST(Schedule, DisjointBytesShareALevel) {
  std::vector<Step> steps = {Fill{{0, 0, 64}, 0}, Fill{{0, 64, 64}, 1}, Copy{{0, 128, 16}, {0, 192, 16}}};
  EXPECT_EQ(ScheduleSteps(steps, Own(1)), (Levels{{0, 1, 2}}));
}

TEST(Schedule, BytesOfOneWordConflict) {
  std::vector<Step> steps = {MakeStep({}, {{0, 0, 1}}), MakeStep({}, {{0, 3, 1}})};
  EXPECT_EQ(ScheduleSteps(steps, Own(1)), (Levels{{0}, {1}}));
}

TEST(Schedule, BuffersOfOneMemoryConflict) {
  std::vector<Step> steps = {Fill{{0, 0, 64}, 0}, Fill{{1, 0, 64}, 1}};
  EXPECT_EQ(ScheduleSteps(steps, std::vector<uint32_t>{0, 0}), (Levels{{0}, {1}}));
  EXPECT_EQ(ScheduleSteps(steps, std::vector<uint32_t>{0, 1}), (Levels{{0, 1}}));
}

// Two chains of three, one after the other: 3 levels where the given order needs 5 barriers less one.
TEST(Schedule, ChainsRunBesideEachOther) {
  std::vector<Step> steps;
  for (uint32_t chain = 0; chain < 2; ++chain) {
    for (uint32_t i = 0; i < 3; ++i) steps.push_back(MakeStep({{chain * 4 + i, 0, 8}}, {{chain * 4 + i + 1, 0, 8}}));
  }
  EXPECT_EQ(ScheduleSteps(steps, Own(8)), (Levels{{0, 3}, {1, 4}, {2, 5}}));
  EXPECT_EQ(ScheduleSteps(steps, Own(8), false), (Levels{{0}, {1}, {2, 3}, {4}, {5}}));
}

TEST(Schedule, StepsThatDoNothingAreLeftOut) {
  Launch nothing;
  nothing.grid[1] = 0;
  nothing.bindings = {{0, 0, 64}};
  std::vector<Step> steps = {Fill{{0, 0, 64}, 0}, nothing, Copy{{0, 0, 0}, {1, 0, 0}}, Fill{{1, 0, 0}, 0}};
  EXPECT_EQ(ScheduleSteps(steps, Own(2)), (Levels{{0}}));
}

// Against the definition: conflicting steps keep their order, each in an earlier level; and no step could be earlier.
TEST(Schedule, RandomProgramsAgreeWithTheDefinition) {
  std::mt19937 random(7);
  auto pick = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  for (int round = 0; round < 200; ++round) {
    std::vector<Step> steps;
    for (int i = 0; i < 30; ++i) {
      Launch launch;
      for (uint32_t b = 0, n = 1 + pick(3); b < n; ++b) {
        launch.bindings.push_back({pick(2), pick(60), 1 + pick(20)});
        launch.access.push_back(static_cast<Access>(1 + pick(3)));
      }
      steps.push_back(launch);
    }
    auto conflict = [&](const Launch& a, const Launch& b) {
      for (std::size_t i = 0; i < a.bindings.size(); ++i) {
        for (std::size_t j = 0; j < b.bindings.size(); ++j) {
          const BufferSlice &x = a.bindings[i], &y = b.bindings[j];
          bool writes = a.access[i] != Access::kRead || b.access[j] != Access::kRead;
          bool same_word = false;
          for (uint64_t w = x.offset / 4; w <= (x.offset + x.size - 1) / 4; ++w) {
            same_word = same_word || (w >= y.offset / 4 && w <= (y.offset + y.size - 1) / 4);
          }
          if (x.buffer == y.buffer && writes && same_word) return true;
        }
      }
      return false;
    };
    std::vector<std::size_t> level(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (conflict(std::get<Launch>(steps[j]), std::get<Launch>(steps[i])))
          level[i] = std::max(level[i], level[j] + 1);
      }
    }
    Levels expected;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      expected.resize(std::max(expected.size(), level[i] + 1));
      expected[level[i]].push_back(static_cast<uint32_t>(i));
    }
    ASSERT_EQ(ScheduleSteps(steps, Own(2)), expected) << "round " << round;
  }
}

}  // namespace
}  // namespace krafla::vk
