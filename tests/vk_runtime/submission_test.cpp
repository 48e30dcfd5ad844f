// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/submission.h"

#include <gtest/gtest.h>

#include "vk_runtime/calibration.h"

namespace krafla::vk {
namespace {

using Levels = std::vector<std::vector<uint32_t>>;

Step LaunchOf(uint32_t x, uint32_t y = 1) {
  Launch launch;
  launch.grid[0] = x;
  launch.grid[1] = y;
  return launch;
}

// One launch a level.
std::vector<Submission> Cut(const std::vector<Step>& steps, std::vector<double> ms, std::vector<bool> splittable = {}) {
  Levels levels;
  StepFacts facts{ms, std::move(splittable), {}};
  facts.is_splittable.resize(steps.size(), true);
  for (uint32_t i = 0; i < steps.size(); ++i) {
    levels.push_back({i});
    facts.names.push_back("step " + std::to_string(i));
  }
  return CutIntoSubmissions(steps, levels, facts, {.submit_ms = 100, .launch_ms = 150});
}

uint32_t GroupsOf(const std::vector<Submission>& submissions, uint32_t step) {
  uint32_t total = 0;
  for (const Submission& s : submissions)
    for (const auto& group : s.groups)
      for (const Piece& p : group)
        if (p.step == step) total += p.count;
  return total;
}

TEST(Submission, ShortStepsShareOne) {
  const auto made = Cut({LaunchOf(4), LaunchOf(4), LaunchOf(4)}, {30, 30, 30});
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(made[0].groups.size(), 3u);
  EXPECT_DOUBLE_EQ(made[0].ms, 90);
}

TEST(Submission, ALongLaunchIsCutAlongItsLongestAxis) {
  const auto made = Cut({LaunchOf(10, 1000)}, {950});
  ASSERT_EQ(made.size(), 10u);
  for (const Submission& s : made) {
    EXPECT_LE(s.ms, 100);
    EXPECT_EQ(s.groups[0][0].axis, 1);
  }
  EXPECT_EQ(GroupsOf(made, 0), 1000u);
}

TEST(Submission, WhatCannotBeCutIsAlone) {
  const auto made = Cut({LaunchOf(10), LaunchOf(1000), LaunchOf(10)}, {10, 950, 10}, {true, false, true});
  ASSERT_EQ(made.size(), 3u);
  EXPECT_EQ(made[1].groups[0][0].axis, -1);
}

TEST(Submission, NoMorePartsThanWorkgroups) {
  const auto made = Cut({LaunchOf(3)}, {1e9});
  ASSERT_EQ(made.size(), 3u);
  EXPECT_EQ(GroupsOf(made, 0), 3u);
}

TEST(Calibration, ShortProgramsAreNotMeasured) {
  EXPECT_FALSE(Calibration({0.1, 0.2}, 100).IsWanted());
  EXPECT_TRUE(Calibration({0.3, 0.3}, 100).IsWanted());
}

TEST(Calibration, TheLesserOfTwoRunsCounts) {
  const auto cut = Cut({LaunchOf(100)}, {10});
  Calibration c({10}, 100);
  const double first[] = {900}, second[] = {12};
  // The driver compiled in the first one.
  EXPECT_FALSE(c.Add(cut, first));
  EXPECT_TRUE(c.IsWanted());
  EXPECT_FALSE(c.Add(cut, second));
  EXPECT_FALSE(c.IsWanted());
  EXPECT_DOUBLE_EQ(c.longest_ms(), 12);
}

TEST(Calibration, WhatTakesTooLongIsCut) {
  const std::vector<Step> steps = {LaunchOf(100), LaunchOf(100)};
  const auto cut = Cut(steps, {10, 30});
  Calibration c({10, 30}, 100);
  const double taken[] = {800};
  EXPECT_FALSE(c.Add(cut, taken));
  ASSERT_TRUE(c.Add(cut, taken));
  EXPECT_DOUBLE_EQ(c.ms()[0], 200);
  EXPECT_DOUBLE_EQ(c.ms()[1], 600);
  const auto again = Cut(steps, {c.ms().begin(), c.ms().end()});
  EXPECT_EQ(again.size(), 8u);
  // It is looked at once more, and then left alone.
  const std::vector<double> good(again.size(), 100.0);
  EXPECT_FALSE(c.Add(again, good));
  EXPECT_FALSE(c.Add(again, good));
  EXPECT_FALSE(c.IsWanted());
}

TEST(Calibration, ManyShortSubmissionsAreJoined) {
  const std::vector<Step> steps = {LaunchOf(1000)};
  const auto cut = Cut(steps, {2000});
  ASSERT_EQ(cut.size(), 20u);
  Calibration c({2000}, 100);
  const std::vector<double> taken(20, 2.0);
  EXPECT_FALSE(c.Add(cut, taken));
  ASSERT_TRUE(c.Add(cut, taken));
  EXPECT_DOUBLE_EQ(c.ms()[0], 40);
  EXPECT_EQ(Cut(steps, {40}).size(), 1u);
}

TEST(Calibration, EndsWhereNothingHelps) {
  const std::vector<Step> steps = {LaunchOf(1)};
  Calibration c({500}, 100);
  const double taken[] = {5000};
  int cuts = 0;
  for (int run = 0; run < 20 && c.IsWanted(); ++run) cuts += c.Add(Cut(steps, {c.ms()[0]}), taken);
  EXPECT_FALSE(c.IsWanted());
  EXPECT_LE(cuts, 2);
}

}  // namespace
}  // namespace krafla::vk
