// SPDX-License-Identifier: Apache-2.0
#include "plan/share_kernels.h"

#include <gtest/gtest.h>

#include "plan/plan_check.h"
#include "plan/step_runner.h"
#include "plan_text.h"

namespace krafla::plan {
namespace {

Result<ProgramPlan> PlanOf(std::string_view text) {
  KRAFLA_ASSIGN(ProgramPlan plan, PlanText(text));
  KRAFLA_TRY(CheckPlan(plan));
  return plan;
}

std::vector<Slice> SlicesOfArgument(const ProgramPlan& plan, int argument) {
  std::vector<Slice> out;
  ForEachLaunch(plan, [&](const LaunchStep& launch) {
    for (const Slice& s : launch.bindings) {
      const Allocation& a = plan.allocations[static_cast<std::size_t>(s.allocation)];
      if (a.kind == Allocation::Kind::kArgument && a.number == argument) out.push_back(s);
    }
  });
  return out;
}

// Products with the layers of one array of weights.
std::string Layers(int64_t depth) {
  return Format(R"(HloModule m
ENTRY main {{
  x = f32[4,{0}] parameter(0)
  w = f32[3,{0},{0}] parameter(1)
  part0 = f32[1,{0},{0}] slice(w), slice={{[0:1], [0:{0}], [0:{0}]}}
  w0 = f32[{0},{0}] reshape(part0)
  part1 = f32[1,{0},{0}] slice(w), slice={{[1:2], [0:{0}], [0:{0}]}}
  w1 = f32[{0},{0}] reshape(part1)
  part2 = f32[1,{0},{0}] slice(w), slice={{[2:3], [0:{0}], [0:{0}]}}
  w2 = f32[{0},{0}] reshape(part2)
  y0 = f32[4,{0}] dot(x, w0), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  y1 = f32[4,{0}] dot(y0, w1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT y2 = f32[4,{0}] dot(y1, w2), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}})",
                depth);
}

TEST(ShareKernelsTest, LayersOfOneArrayShareAKernel) {
  auto plan = PlanOf(Layers(64));
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_EQ(plan->kernels.size(), 1u);
  const std::vector<Slice> weights = SlicesOfArgument(*plan, 1);
  ASSERT_EQ(weights.size(), 3u);
  for (std::size_t n = 0; n < 3; ++n) {
    EXPECT_EQ(weights[n].offset, static_cast<int64_t>(n) * 64 * 64 * 4);
    EXPECT_EQ(weights[n].size, 64 * 64 * 4);
  }
}

// A slice of a buffer begins at a multiple of 256 bytes: layers of 7 x 7 elements stay where they are.
TEST(ShareKernelsTest, SlicesBeginWhereDevicesLetThem) {
  auto plan = PlanOf(Layers(7));
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_EQ(plan->kernels.size(), 3u);
  for (const Slice& s : SlicesOfArgument(*plan, 1)) EXPECT_EQ(s.size, 3 * 7 * 7 * 4);
}

// Kernels that nothing is equal to bind their arrays whole.
TEST(ShareKernelsTest, OtherKernelsStayAsTheyAre) {
  auto plan = PlanOf(R"(HloModule m
ENTRY main {
  x = f32[3,64] parameter(0)
  s = f32[1,64] slice(x), slice={[2:3], [0:64]}
  ROOT n = f32[1,64] negate(s)
})");
  ASSERT_TRUE(plan) << plan.error().ToString();
  const std::vector<Slice> slices = SlicesOfArgument(*plan, 0);
  ASSERT_EQ(slices.size(), 1u);
  EXPECT_EQ(slices[0].offset, 0);
  EXPECT_EQ(slices[0].size, 3 * 64 * 4);
}

// A small loop may be one kernel, which would hold an address for each slice.
TEST(ShareKernelsTest, SmallKernelsOfLoopsStayAsTheyAre) {
  auto plan = PlanOf(R"(HloModule m
condition {
  s = (s32[], f32[4,64], f32[2,64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT go = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[4,64], f32[2,64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4,64] get-tuple-element(s), index=1
  w = f32[2,64,64] get-tuple-element(s), index=2
  part0 = f32[1,64,64] slice(w), slice={[0:1], [0:64], [0:64]}
  w0 = f32[64,64] reshape(part0)
  part1 = f32[1,64,64] slice(w), slice={[1:2], [0:64], [0:64]}
  w1 = f32[64,64] reshape(part1)
  y0 = f32[4,64] dot(x, w0), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  y1 = f32[4,64] dot(y0, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[4,64], f32[2,64,64]) tuple(j, y1, w)
}
ENTRY main {
  x = f32[4,64] parameter(0)
  w = f32[2,64,64] parameter(1)
  zero = s32[] constant(0)
  init = (s32[], f32[4,64], f32[2,64,64]) tuple(zero, x, w)
  loop = (s32[], f32[4,64], f32[2,64,64]) while(init), condition=condition, body=body
  ROOT out = f32[4,64] get-tuple-element(loop), index=1
})");
  ASSERT_TRUE(plan) << plan.error().ToString();
  for (const Slice& s : SlicesOfArgument(*plan, 1)) EXPECT_EQ(s.size, 2 * 64 * 64 * 4);
}

// The layer of a cache is written at an index that the program computes, within the layer.
TEST(ShareKernelsTest, UpdatesWithinALayerShareAKernel) {
  auto plan = PlanOf(R"(HloModule m, input_output_alias={ {}: (0, {}, must-alias) }
ENTRY main {
  cache = f32[3,32,64] parameter(0)
  a = f32[1,1,64] parameter(1)
  b = f32[1,1,64] parameter(2)
  at = s32[] parameter(3)
  zero = s32[] constant(0)
  one = s32[] constant(1)
  two = s32[] constant(2)
  c1 = f32[3,32,64] dynamic-update-slice(cache, a, one, at, zero)
  ROOT c2 = f32[3,32,64] dynamic-update-slice(c1, b, two, at, zero)
})");
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_EQ(plan->kernels.size(), 1u);
}

}  // namespace
}  // namespace krafla::plan
