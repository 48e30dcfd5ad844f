// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_check.h"

#include <gtest/gtest.h>

#include "hlo_io/hlo_text/hlo_text.h"
#include "passes/pipeline.h"
#include "plan/planner.h"

namespace krafla::plan {
namespace {

// A kernel, a loop, a conditional, a copy of an argument, a constant and an instruction that the host runs.
constexpr std::string_view kText = R"(HloModule m
c { p = (s32[], f32[8]) parameter(0)
 i = s32[] get-tuple-element(p), index=0
 n = s32[] constant(3)
 ROOT r = pred[] compare(i, n), direction=LT }
b { p = (s32[], f32[8]) parameter(0)
 i = s32[] get-tuple-element(p), index=0
 x = f32[8] get-tuple-element(p), index=1
 one = s32[] constant(1)
 j = s32[] add(i, one)
 y = f32[8] custom-call(x), custom_call_target="host"
 ROOT r = (s32[], f32[8]) tuple(j, y) }
ENTRY e {
  z = s32[] parameter(0)
  x = f32[8] parameter(1)
  k = f32[8] constant({1,2,3,4,5,6,7,8})
  y = f32[8] add(x, k)
  t = (s32[], f32[8]) tuple(z, y)
  ROOT w = (s32[], f32[8]) while(t), condition=c, body=b
})";

class PlanCheckTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto module = ParseHloText(kText);
    ASSERT_TRUE(module.has_value()) << module.error().ToString();
    ASSERT_TRUE(RunPipeline(**module).has_value());
    auto verified = VerifiedModule::Make(std::move(*module));
    ASSERT_TRUE(verified.has_value()) << verified.error().ToString();
    auto plan = PlanProgram(std::move(*verified), {});
    ASSERT_TRUE(plan.has_value()) << plan.error().ToString();
    plan_ = std::move(*plan);
    ASSERT_TRUE(CheckPlan(plan_).has_value()) << CheckPlan(plan_).error().ToString();
  }
  void ExpectRefused(const char* why) {
    const Result<> checked = CheckPlan(plan_);
    ASSERT_FALSE(checked.has_value()) << why;
    EXPECT_EQ(checked.error().code(), StatusCode::kInternal) << checked.error().ToString();
    EXPECT_FALSE(checked.error().message().empty());
  }
  // Every slice of every step.
  static void Collect(StepList& list, std::vector<Slice*>& out) {
    for (Step& step : list.steps) {
      if (auto* launch = std::get_if<LaunchStep>(&step)) {
        for (Slice& s : launch->bindings) out.push_back(&s);
      } else if (auto* copy = std::get_if<CopyStep>(&step)) {
        out.push_back(&copy->from), out.push_back(&copy->to);
      } else if (auto* loop = std::get_if<WhileStep>(&step)) {
        out.push_back(&loop->predicate);
        Collect(*loop->condition, out);
        Collect(*loop->body, out);
      } else if (auto* branch = std::get_if<ConditionalStep>(&step)) {
        out.push_back(&branch->index);
        for (auto& b : branch->branches) Collect(*b, out);
      }
    }
  }

  ProgramPlan plan_;
};

TEST_F(PlanCheckTest, EverySliceHasToFit) {
  std::vector<Slice*> slices;
  Collect(plan_.steps, slices);
  ASSERT_GT(slices.size(), 4u);
  for (Slice* slice : slices) {
    const Slice before = *slice;
    slice->size = 1'000'000;
    ExpectRefused("larger than its allocation");
    *slice = before;
    slice->offset = plan_.allocations[static_cast<std::size_t>(slice->allocation)].size;
    ExpectRefused("past the end of its allocation");
    *slice = before;
    slice->offset = -4;
    ExpectRefused("before its allocation");
    *slice = before;
    slice->size = 0;
    slice->allocation = static_cast<int>(plan_.allocations.size());
    ExpectRefused("no such allocation");
    *slice = before;
  }
  EXPECT_TRUE(CheckPlan(plan_).has_value());
}

TEST_F(PlanCheckTest, KernelsGetWhatTheyTouch) {
  for (KernelPlan& kernel : plan_.kernels)
    for (Binding& binding : kernel.bindings) {
      const int64_t before = binding.element_count;
      binding.element_count = 1'000'000;
      ExpectRefused("a binding that touches more than it is given");
      binding.element_count = before;
    }
  // A host kernel's arrays are its instruction's, neither more nor less.
  bool found = false;
  for (KernelPlan& kernel : plan_.kernels) {
    if (!std::holds_alternative<HostKernel>(kernel.body)) continue;
    found = true;
    kernel.bindings[0].element_count -= 1;
    ExpectRefused("a host kernel's operand of another size");
    kernel.bindings[0].element_count += 1;
    kernel.bindings.pop_back();
    ExpectRefused("a host kernel without its result");
  }
  EXPECT_TRUE(found);
}

TEST_F(PlanCheckTest, AllocationsAreAsLargeAsWhatTheyStandFor) {
  for (Allocation& a : plan_.allocations) {
    const Allocation before = a;
    a.size += 1'000'000;
    ExpectRefused("an allocation larger than what it stands for");
    a = before;
    if (a.kind == Allocation::Kind::kArena) continue;
    a.number = 99;
    ExpectRefused("an allocation of nothing");
    a = before;
  }
}

}  // namespace
}  // namespace krafla::plan
