// SPDX-License-Identifier: Apache-2.0
// Which loops are loops of points, and of how many. That these compute what others do, tests/regress asks.
#include "plan/point_loop.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "../hlo_io/corpus_files.h"
#include "plan_text.h"

namespace krafla::plan {
namespace {

Result<PointProgram> FirstLoop(const ProgramPlan& plan, int64_t most_nodes) {
  for (const Step& step : plan.steps.steps)
    if (const auto* loop = std::get_if<WhileStep>(&step)) return FindPointLoop(plan, *loop, most_nodes);
  return NotFound("The program has no loop.");
}
Result<PointProgram> FindIn(const std::string& text, int64_t most_nodes = 6000) {
  KRAFLA_ASSIGN(const ProgramPlan plan, PlanText(text));
  return FirstLoop(plan, most_nodes);
}
std::string Regress(const std::string& name) {
  return krafla::testing::ReadText(std::filesystem::path(KRAFLA_SOURCE_DIR) / "tests/regress" /
                                   ("point_loop_" + name + ".hlo"));
}

TEST(PointLoopTest, PointsOfRecordedLoops) {
  const std::pair<const char*, int64_t> loops[] = {
      {"rows", 100},  {"columns", 37}, {"scan", 70}, {"scan_scalars", 41}, {"until", 1000}, {"branches", 50},
      {"nested", 55}, {"types", 19},   {"meet", 1},  {"swap", 129},        {"table", 70},   {"padded", 40},
  };
  for (const auto& [name, points] : loops) {
    auto found = FindIn(Regress(name));
    ASSERT_TRUE(found) << name << ": " << found.error().ToString();
    EXPECT_EQ(found->loop.points, points) << name;
  }
}

TEST(PointLoopTest, WhatIsCarriedHasCells) {
  auto found = FindIn(Regress("rows"));
  ASSERT_TRUE(found);
  // The rows of a column, before and after the turn, and the counter.
  int of_points = 0;
  for (const PointLoop::Cell& c : found->loop.cells) of_points += c.stride == 1 ? 1 : 0;
  EXPECT_EQ(of_points, 6);
  for (const PointLoop::Memory& m : found->loop.memory) EXPECT_FALSE(m.read_in_place || m.written_in_place);
  // A scan's rows stay where they are.
  found = FindIn(Regress("scan"));
  ASSERT_TRUE(found);
  int read = 0, written = 0;
  for (const PointLoop::Memory& m : found->loop.memory) read += m.read_in_place, written += m.written_in_place;
  EXPECT_EQ(read, 1);
  EXPECT_EQ(written, 2);
}

TEST(PointLoopTest, ReasonsAgainst) {
  auto found = FindIn(Regress("reverse"));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code(), StatusCode::kUnimplemented);
  EXPECT_NE(found.error().message().find("meet"), std::string::npos);
  found = FindIn(Regress("types"), 20);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code(), StatusCode::kUnimplemented);
  found = FindIn(R"(HloModule m
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
body {
  s = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[64] get-tuple-element(s), index=1
  one = s32[] constant(1)
  zero = f32[] constant(0)
  n = s32[] add(i, one)
  total = f32[] reduce(x, zero), dimensions={0}, to_apply=sum
  all = f32[64] broadcast(total), dimensions={}
  y = f32[64] subtract(x, all)
  ROOT t = (s32[], f32[64]) tuple(n, y)
}
cond {
  s = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  most = s32[] constant(30)
  ROOT p = pred[] compare(i, most), direction=LT
}
ENTRY e {
  x = f32[64] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[64]) tuple(zero, x)
  w = (s32[], f32[64]) while(s), condition=cond, body=body
  ROOT r = f32[64] get-tuple-element(w), index=1
})");
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().message().find("reduce"), std::string::npos) << found.error().ToString();
}

}  // namespace
}  // namespace krafla::plan
