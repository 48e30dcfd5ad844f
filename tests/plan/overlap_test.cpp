// SPDX-License-Identifier: Apache-2.0
// Which collectives go on while kernels run, and around which of these.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "plan/fusion/ready_groups.h"
#include "plan/plan_check.h"
#include "plan/planner.h"
#include "plan_text.h"

namespace krafla::plan {
namespace {

constexpr std::string_view kHead = R"(HloModule m, replica_count=2
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
)";

PlanOptions Overlapping() {
  PlanOptions out;
  out.fusion.overlap.enabled = true;
  return out;
}

// "start a", "await a", "dot", ... of the steps of a list, by the names of instructions.
std::vector<std::string> Names(const StepList& list) {
  std::vector<std::string> out;
  for (const Step& step : list.steps) {
    if (const auto* launch = std::get_if<LaunchStep>(&step))
      out.push_back((launch->exchange >= 0 ? "start " : "") + launch->instruction->name());
    if (const auto* await = std::get_if<AwaitStep>(&step)) out.push_back("await " + await->instruction->name());
    if (std::holds_alternative<CopyStep>(step)) out.push_back("copy");
    if (std::holds_alternative<WhileStep>(step)) out.push_back("while");
  }
  return out;
}
using Words = std::vector<std::string>;

// The product stands before the sum, whose operand is there first: the sum begins, the product runs meanwhile.
TEST(OverlapTest, ACollectiveBeginsBeforeWhatDoesNotNeedIt) {
  const std::string text = std::string(kHead) + R"(ENTRY e {
  x = f32[256,256] parameter(0)
  y = f32[1024] parameter(1)
  d = f32[256,256] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  n = f32[1024] negate(y)
  s = f32[1024] all-reduce(n), replica_groups={}, to_apply=sum
  e = f32[1024] exponential(s)
  ROOT t = (f32[256,256], f32[1024]) tuple(d, e)
})";
  auto plan = PlanText(text, Overlapping());
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_EQ(Names(plan->steps), (Words{"n", "start s", "d", "await s", "e"}));
  EXPECT_EQ(plan->exchanges, 1);
  EXPECT_TRUE(CheckPlan(*plan));
  // Without it, and where next to nothing runs meanwhile, each step ends before the next one.
  plan = PlanText(text);
  ASSERT_TRUE(plan);
  EXPECT_EQ(Names(plan->steps), (Words{"d", "n", "s", "e"}));
  PlanOptions hardly = Overlapping();
  hardly.fusion.overlap.least_hidden_ns = 1e9;
  plan = PlanText(text, hardly);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->exchanges, 0);
}

// What the collective reads and writes lies elsewhere than what is made meanwhile.
TEST(OverlapTest, ItsArraysStayUntilItIsOver) {
  auto plan = PlanText(std::string(kHead) + R"(ENTRY e {
  x = f32[256,256] parameter(0)
  n = f32[256,256] negate(x)
  s = f32[256,256] all-reduce(n), replica_groups={}, to_apply=sum
  d = f32[256,256] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  f = f32[256,256] dot(d, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g = f32[256,256] dot(f, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = f32[256,256] dot(s, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})",
                       Overlapping());
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_EQ(Names(plan->steps), (Words{"n", "start s", "d", "f", "g", "await s", "t"}));
  EXPECT_TRUE(CheckPlan(*plan)) << CheckPlan(*plan).error().ToString();
  // n, s, d, f and g at once.
  EXPECT_EQ(plan->arena_size, 5 * 256 * 256 * 4);
}

// Gradients of one layer are summed while those of the next are computed.
TEST(OverlapTest, WhatWaitsComesAfterWhatDoesNot) {
  auto plan = PlanText(std::string(kHead) + R"(ENTRY e {
  x = f32[256,256] parameter(0)
  w1 = f32[256,256] parameter(1)
  w2 = f32[256,256] parameter(2)
  grad_2 = f32[256,256] dot(x, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  sum_2 = f32[256,256] all-reduce(grad_2), replica_groups={{0,1}}, to_apply=sum
  new_2 = f32[256,256] dot(w2, sum_2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  grad_1 = f32[256,256] dot(x, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  sum_1 = f32[256,256] all-reduce(grad_1), replica_groups={{1,0}}, to_apply=sum
  new_1 = f32[256,256] dot(w1, sum_1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[256,256], f32[256,256]) tuple(new_1, new_2)
})",
                       Overlapping());
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_EQ(Names(plan->steps),
            (Words{"grad_2", "start sum_2", "grad_1", "start sum_1", "await sum_2", "new_2", "await sum_1", "new_1"}));
}

// Ring attention: the next block is on its way while the one that is here is worked on.
TEST(OverlapTest, InTheBodyOfALoop) {
  auto plan = PlanText(R"(HloModule m, replica_count=2
again {
  p = (s32[], f32[256,256], f32[256,256]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5)
  ROOT r = pred[] compare(i, n), direction=LT
}
turn {
  p = (s32[], f32[256,256], f32[256,256]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  k = f32[256,256] get-tuple-element(p), index=1
  acc = f32[256,256] get-tuple-element(p), index=2
  start = (f32[256,256], f32[256,256]) collective-permute-start(k), source_target_pairs={{0,1},{1,0}}
  d = f32[256,256] dot(k, k), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[256,256] add(acc, d)
  next = f32[256,256] collective-permute-done(start)
  ROOT t = (s32[], f32[256,256], f32[256,256]) tuple(j, next, s)
}
ENTRY e {
  x = f32[256,256] parameter(0)
  y = f32[256,256] parameter(1)
  zero = s32[] constant(0)
  t = (s32[], f32[256,256], f32[256,256]) tuple(zero, x, y)
  ROOT w = (s32[], f32[256,256], f32[256,256]) while(t), condition=again, body=turn
})",
                       Overlapping());
  ASSERT_TRUE(plan) << plan.error().ToString();
  const WhileStep* loop = nullptr;
  for (const Step& s : plan->steps.steps)
    if (const auto* w = std::get_if<WhileStep>(&s)) loop = w;
  ASSERT_NE(loop, nullptr);
  const Words names = Names(*loop->body);
  const auto at = [&](std::string_view prefix) {
    return std::ranges::find_if(names, [&](const std::string& n) { return n.starts_with(prefix); }) - names.begin();
  };
  const auto work = std::ranges::find(names, "s") - names.begin();
  EXPECT_LT(at("start "), work);
  EXPECT_LT(work, at("await "));
  EXPECT_LT(at("await "), at("copy"));
  EXPECT_LT(at("copy"), std::ssize(names));
}

TEST(OverlapTest, WhatIsNoOrderIsRefused) {
  const std::string text = std::string(kHead) + R"(ENTRY e {
  x = f32[256,256] parameter(0)
  n = f32[256,256] negate(x)
  s = f32[256,256] all-reduce(n), replica_groups={}, to_apply=sum
  d = f32[256,256] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = f32[256,256] dot(s, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})";
  const auto refused = [&](auto change) {
    auto plan = PlanText(text, Overlapping());
    ASSERT_TRUE(plan) << plan.error().ToString();
    ASSERT_EQ(Names(plan->steps), (Words{"n", "start s", "d", "await s", "t"}));
    change(*plan);
    EXPECT_FALSE(CheckPlan(*plan));
  };
  refused([](ProgramPlan& p) { std::swap(p.steps.steps[3], p.steps.steps[4]); });  // read before it is awaited
  refused([](ProgramPlan& p) { std::swap(p.steps.steps[0], p.steps.steps[1]); });  // its operand is written meanwhile
  refused([](ProgramPlan& p) { p.steps.steps.erase(p.steps.steps.begin() + 3); });
  refused([](ProgramPlan& p) { p.steps.steps.push_back(AwaitStep{0, nullptr}); });
  refused([](ProgramPlan& p) { p.exchanges = 0; });
}

TEST(ReadyGroupsTest, WithoutCollectivesTheFirstComesFirst) {
  ReadyGroups ready({{.place = 3}, {.place = 1}, {.place = 2}});
  for (int g : {0, 1, 2}) ready.Add(g, 0);
  EXPECT_EQ(ready.Take(), 1);
  EXPECT_EQ(ready.Take(), 2);
  EXPECT_EQ(ready.Take(), 0);
  EXPECT_TRUE(ready.IsEmpty());
}

// What no collective waits for is kept for when there is one to hide, but no more than that takes.
TEST(ReadyGroupsTest, KeepsAsMuchBackAsHidesACollective) {
  using Facts = ReadyGroups::Facts;
  const auto kept = [](int place) { return Facts{.place = place, .is_waited_for = false, .ns = 60}; };
  ReadyGroups ready({kept(0), kept(1), kept(2), Facts{.place = 3, .ns = 10},
                     Facts{.place = 4, .goes_on = true, .ns = 100}, Facts{.place = 5}});
  for (int g : {0, 1, 2, 3}) ready.Add(g, 0);
  EXPECT_EQ(ready.Take(), 0);
  EXPECT_EQ(ready.Take(), 3);
  ready.Add(4, 0);
  EXPECT_EQ(ready.Take(), 4);
  ready.Add(5, ready.EndOf(4));
  EXPECT_EQ(ready.Take(), 1);
  EXPECT_EQ(ready.Take(), 2);
  EXPECT_EQ(ready.Take(), 5);
}

}  // namespace
}  // namespace krafla::plan
