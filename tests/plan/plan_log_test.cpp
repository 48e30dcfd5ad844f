// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/checked_math.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "ir/verifier.h"
#include "plan/arena.h"
#include "plan/planner.h"

namespace krafla::plan {
namespace {

struct Logged {
  PlanLog log;
  ProgramPlan plan;

  const LoggedGroup* GroupOf(std::string_view name) const {
    for (const LoggedGroup& g : log.groups)
      if (std::ranges::contains(g.made, name, &Instruction::name)) return &g;
    return nullptr;
  }
  // Why `reader`'s kernel does not compute `value`.
  std::string Why(std::string_view value, std::string_view reader) const {
    const LoggedGroup *made = GroupOf(value), *reads = GroupOf(reader);
    if (made == nullptr || reads == nullptr) return "no such group";
    if (made == reads) return "one kernel";
    const auto read = std::ranges::find(reads->reads, value, &Instruction::name);
    return read == reads->reads.end() ? "not read" : WhyApart(log, *made, *reads, **read);
  }
};

Logged LoggedPlan(std::string_view body, FusionOptions fusion = {}, bool with_log = true) {
  const std::string text = R"(HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT }
ENTRY main {
)" + std::string(body) + "}\n";
  Logged out;
  auto module = ParseHloText(text);
  if (!module) ADD_FAILURE() << module.error().ToString();
  auto verified = VerifiedModule::Make(std::move(*module));
  if (!verified) ADD_FAILURE() << verified.error().ToString();
  PlanOptions options;
  options.fusion = fusion;
  if (with_log) options.fusion.log = &out.log;
  auto plan = PlanProgram(std::move(*verified), options);
  if (!plan) ADD_FAILURE() << plan.error().ToString();
  out.plan = std::move(*plan);
  return out;
}

constexpr std::string_view kShared = R"(
  x = f32[64] parameter(0)
  y = f32[64] parameter(1)
  e = f32[64] exponential(x)
  s = f32[64] sort(e), dimensions={0}, to_apply=less
  t = f32[64] negate(s)
  c = f32[] constant(0)
  r = f32[] reduce(e, c), dimensions={0}, to_apply=add
  u = f32[64] add(e, y)
  ROOT out = (f32[64], f32[], f32[64]) tuple(t, r, u)
)";

TEST(PlanLog, SaysWhyValuesGoThroughMemory) {
  const Logged l = LoggedPlan(kShared);
  EXPECT_EQ(l.Why("e", "s"), "s takes it from memory.");
  EXPECT_EQ(l.Why("s", "t"), "Only reductions, dots, convolutions and loops are joined with what reads them.");
}

TEST(PlanLog, SaysThatSeveralKernelsWouldComputeIt) {
  const Logged l = LoggedPlan(R"(
  x = f32[8,64] parameter(0)
  e = f32[8,64] exponential(x)
  c = f32[] constant(0)
  r = f32[8] reduce(e, c), dimensions={1}, to_apply=add
  q = f32[64] reduce(e, c), dimensions={0}, to_apply=add
  ROOT out = (f32[8], f32[64]) tuple(r, q)
)");
  const std::string says = "2 kernels read it, and each would compute it, at a cost of 20 for each element.";
  EXPECT_EQ(l.Why("e", "r"), says);
  EXPECT_EQ(l.Why("e", "q"), says);
}

TEST(PlanLog, SaysWhyAnEpilogueWasRefused) {
  const Logged l = LoggedPlan(R"(
  x = f32[8,16] parameter(0)
  w = f32[16,8] parameter(1)
  d = f32[8,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  n = f32[8,8] negate(d)
  ROOT out = (f32[8,8], f32[8,8]) tuple(d, n)
)");
  EXPECT_EQ(l.Why("d", "n"), "More than one kernel reads the result, or it is a result of the program.");
}

TEST(PlanLog, SaysThatFusionIsOff) {
  FusionOptions off;
  off.fuse = false;
  const Logged l = LoggedPlan(kShared, off);
  EXPECT_EQ(l.Why("e", "u"), "Fusion is off.");
}

TEST(PlanLog, HoldsWhatEachKernelComputes) {
  const Logged l = LoggedPlan(kShared);
  ASSERT_NE(l.GroupOf("t"), nullptr);
  std::vector<std::string> names;
  for (const Instruction* i : l.GroupOf("r")->members) names.push_back(i->name());
  EXPECT_EQ(names, (std::vector<std::string>{"c", "r"}));
}

TEST(PlanLog, LivesAddUpToTheLargestLiveSet) {
  const Logged l = LoggedPlan(kShared);
  std::map<int, int64_t> change;
  for (const PlanLog::Life& life : l.log.lives) {
    const int64_t bytes = RoundUp(l.plan.allocations[static_cast<std::size_t>(life.allocation)].size, kArenaAlignment);
    change[life.first] += bytes;
    change[life.last + 1] -= bytes;
  }
  int64_t live = 0, most = 0;
  for (const auto& [step, delta] : change) most = std::max(most, live += delta);
  EXPECT_GT(most, 0);
  EXPECT_EQ(most, l.plan.peak_live_bytes);
}

TEST(PlanLog, ChangesNoPlan) {
  EXPECT_EQ(ToString(LoggedPlan(kShared).plan), ToString(LoggedPlan(kShared, {}, false).plan));
}

}  // namespace
}  // namespace krafla::plan
