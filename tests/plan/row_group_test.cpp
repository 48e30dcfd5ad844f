// SPDX-License-Identifier: Apache-2.0
// Which chains of kernels become row groups, and of what blocks.
#include <gtest/gtest.h>

#include "plan/plan_check.h"
#include "plan/plan_log.h"
#include "plan/rows/row_kernel.h"
#include "plan/step_runner.h"
#include "plan_text.h"

namespace krafla::plan {
namespace {

// The softmax of rows of a product, times another matrix.
std::string Chain(int64_t rows, int64_t columns) {
  return Format(R"(HloModule chain
max {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }}
ENTRY main {{
  q = f32[{0},32] parameter(0)
  k = f32[{1},32] parameter(1)
  x = f32[{0},{1}] dot(q, k), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  low = f32[] constant(-inf)
  m = f32[{0}] reduce(x, low), dimensions={{1}}, to_apply=max
  mb = f32[{0},{1}] broadcast(m), dimensions={{0}}
  d = f32[{0},{1}] subtract(x, mb)
  e = f32[{0},{1}] exponential(d)
  ROOT r = f32[{0},32] dot(e, k), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}})",
                rows, columns);
}

PlanOptions Rows(int64_t least_saved, int64_t block_bytes) {
  PlanOptions out;
  out.row_groups = {.enabled = true, .least_saved = least_saved, .block_bytes = block_bytes};
  return out;
}

std::vector<const RowGroupStep*> GroupsIn(const ProgramPlan& plan) {
  std::vector<const RowGroupStep*> out;
  for (const Step& step : plan.steps.steps)
    if (const auto* group = std::get_if<RowGroupStep>(&step)) out.push_back(group);
  return out;
}

TEST(RowGroupPlanTest, WhatLiesBetweenTakesABlock) {
  auto plan = PlanText(Chain(256, 128), Rows(1, 64 * 128 * 4 * 2));
  ASSERT_TRUE(plan) << plan.error().ToString();
  const Result<> checked = CheckPlan(*plan);
  EXPECT_TRUE(checked) << checked.error().ToString();
  const auto groups = GroupsIn(*plan);
  ASSERT_EQ(groups.size(), 1u) << ToString(*plan);
  EXPECT_EQ(groups[0]->launches.size(), 3u);
  EXPECT_EQ(groups[0]->grid, Dims({4}));
  EXPECT_EQ(plan->arena_size, 0);
  EXPECT_EQ(plan->kernels.size(), 3u) << "the kernels of the whole are gone";
  EXPECT_EQ(plan->block_bytes, 256 + 2 * 64 * 128 * 4);
}

TEST(RowGroupPlanTest, RowsThatAreLeftOverAreAGroup) {
  auto plan = PlanText(Chain(251, 128), Rows(1, 64 * 128 * 4 * 2));
  ASSERT_TRUE(plan) << plan.error().ToString();
  const Result<> checked = CheckPlan(*plan);
  EXPECT_TRUE(checked) << checked.error().ToString();
  const auto groups = GroupsIn(*plan);
  ASSERT_EQ(groups.size(), 2u) << ToString(*plan);
  EXPECT_EQ(groups[0]->grid, Dims({3}));
  EXPECT_EQ(groups[1]->grid, Dims({1}));
}

TEST(RowGroupPlanTest, OnlyWhereItIsAGain) {
  for (const PlanOptions& options : {PlanOptions{}, Rows(int64_t{1} << 20, 1 << 15)}) {
    auto plan = PlanText(Chain(256, 128), options);
    ASSERT_TRUE(plan) << plan.error().ToString();
    EXPECT_TRUE(GroupsIn(*plan).empty());
  }
}

// The product before could begin the chain of the scores, and would keep the softmax out of it, whose rows are others.
TEST(RowGroupPlanTest, BeginsWhereMostIsSaved) {
  auto plan = PlanText(R"(HloModule heads
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }
ENTRY main {
  x = f32[256,64] parameter(0)
  w = f32[64,128] parameter(1)
  k = f32[256,4,32] parameter(2)
  p = f32[256,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  q = f32[256,4,32] reshape(p)
  s = f32[4,256,256] dot(q, k), lhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_batch_dims={1}, rhs_contracting_dims={2}
  low = f32[] constant(-inf)
  m = f32[4,256] reduce(s, low), dimensions={2}, to_apply=max
  mb = f32[4,256,256] broadcast(m), dimensions={0,1}
  d = f32[4,256,256] subtract(s, mb)
  e = f32[4,256,256] exponential(d)
  ROOT r = f32[4,256,32] dot(e, k), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={1}, rhs_contracting_dims={0}
})",
                       Rows(1, 1 << 16));
  ASSERT_TRUE(plan) << plan.error().ToString();
  const auto groups = GroupsIn(*plan);
  ASSERT_EQ(groups.size(), 1u) << ToString(*plan);
  EXPECT_EQ(groups[0]->launches.size(), 3u) << ToString(*plan);
}

// Arrays of more elements than a kernel indexes: no kernel is left that has one. Those that cannot shrink stay what
// they were, work for the evaluator.
TEST(RowGroupPlanTest, LargeArraysShrink) {
  PlanOptions options;
  options.row_groups.enabled = true;
  auto plan = PlanText(Chain(40960, 40960), options);
  ASSERT_TRUE(plan) << plan.error().ToString();
  const Result<> checked = CheckPlan(*plan);
  EXPECT_TRUE(checked) << checked.error().ToString();
  EXPECT_LT(plan->arena_size, int64_t{1} << 20);
  for (const KernelPlan& kernel : plan->kernels) EXPECT_FALSE(std::holds_alternative<HostKernel>(kernel.body));
  auto columns = PlanText(R"(HloModule columns
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY main {
  q = f32[40960,32] parameter(0)
  x = f32[40960,40960] dot(q, q), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  zero = f32[] constant(0)
  ROOT s = f32[40960] reduce(x, zero), dimensions={0}, to_apply=add
})",
                          options);
  ASSERT_TRUE(columns) << columns.error().ToString();
  EXPECT_TRUE(GroupsIn(*columns).empty());
}

// A right operand that lies in no cache is not read again for a few rows.
TEST(RowGroupPlanTest, RowsShareLargeOperands) {
  PlanOptions options = Rows(1, 128 * 4 * 2);
  options.row_groups.few_rows = 1;
  options.row_groups.shared_bytes = 1000;
  PlanLog log;
  options.fusion.log = &log;
  auto plan = PlanText(Chain(256, 128), options);
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_TRUE(GroupsIn(*plan).empty());
  ASSERT_FALSE(log.row_groups.empty());
  EXPECT_EQ(log.row_groups[0].why, Ungrouped::kShared);
}

// A product over the rows of the softmax, and another product whose rows the softmax reads: all of it is one group,
// whose blocks add to sums in order.
TEST(RowGroupPlanTest, SumsOverRows) {
  const auto text = [](std::string_view product) {
    return Format(R"(HloModule sums
max {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }}
ENTRY main {{
  q = f32[4,256,32] parameter(0)
  k = f32[4,128,32] parameter(1)
  g = f32[4,256,32] parameter(2)
  y = f32[4,256,128] dot(g, k), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{2}}
  x = f32[4,256,128] dot(q, k), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{2}}
  low = f32[] constant(-inf)
  m = f32[4,256] reduce(x, low), dimensions={{2}}, to_apply=max
  mb = f32[4,256,128] broadcast(m), dimensions={{0,1}}
  d = f32[4,256,128] subtract(x, mb)
  e = f32[4,256,128] exponential(d)
  p = f32[4,256,128] multiply(e, y)
  {}
}})",
                  product);
  };
  PlanLog log;
  PlanOptions options = Rows(1, 64 * 128 * 4);
  options.fusion.log = &log;
  const std::string sums = text(
      "ROOT r = f32[4,128,32] dot(p, q), lhs_batch_dims={0}, lhs_contracting_dims={1}, "
      "rhs_batch_dims={0}, rhs_contracting_dims={1}");
  auto plan = PlanText(sums, options);
  ASSERT_TRUE(plan) << plan.error().ToString();
  const Result<> checked = CheckPlan(*plan);
  EXPECT_TRUE(checked) << checked.error().ToString();
  const auto groups = GroupsIn(*plan);
  ASSERT_EQ(groups.size(), 1u) << ToString(*plan);
  EXPECT_EQ(groups[0]->launches.size(), 4u) << ToString(*plan);
  ASSERT_GE(groups[0]->grid.size(), 2u);
  EXPECT_EQ(groups[0]->grid[0], 4);
  EXPECT_EQ(groups[0]->in_order, 1) << "blocks of a head add to the same sums";
  // Two runs of blocks for each head, whose sums are added up behind the group.
  EXPECT_EQ(plan->arena_size, 2 * 4 * 128 * 32 * 4) << ToString(*plan);
  for (Step& step : plan->steps.steps)
    if (auto* group = std::get_if<RowGroupStep>(&step)) group->in_order = 9;
  EXPECT_FALSE(CheckPlan(*plan));
  auto small = PlanText(sums, Rows(int64_t{1} << 30, 1));
  ASSERT_TRUE(small) << small.error().ToString();
  EXPECT_TRUE(GroupsIn(*small).empty());
  // Sums of other types stay what they were.
  log.row_groups.clear();
  auto wide = PlanText(text("pw = f64[4,256,128] convert(p)\n qw = f64[4,256,32] convert(q)\n"
                            "ROOT r = f64[4,128,32] dot(pw, qw), lhs_batch_dims={0}, lhs_contracting_dims={1}, "
                            "rhs_batch_dims={0}, rhs_contracting_dims={1}"),
                       options);
  ASSERT_TRUE(wide) << wide.error().ToString();
  for (const RowGroupStep* group : GroupsIn(*wide)) EXPECT_EQ(group->in_order, 0);
}

// A launch that needs all rows of an array runs behind the group, and the array stays whole.
TEST(RowGroupPlanTest, WhatIsReadBehindIsWhole) {
  auto plan = PlanText(R"(HloModule behind
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY main {
  q = f32[256,32] parameter(0)
  k = f32[128,32] parameter(1)
  x = f32[256,128] dot(q, k), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  zero = f32[] constant(0)
  m = f32[256] reduce(x, zero), dimensions={1}, to_apply=add
  mb = f32[256,128] broadcast(m), dimensions={0}
  e = f32[256,128] divide(x, mb)
  o = f32[256,32] dot(e, k), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[] reduce(o, zero), dimensions={0,1}, to_apply=add
  g = f32[128,32] dot(e, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT r = (f32[], f32[128,32]) tuple(s, g)
})",
                       Rows(1, 64 * 128 * 4));
  ASSERT_TRUE(plan) << plan.error().ToString();
  const Result<> checked = CheckPlan(*plan);
  EXPECT_TRUE(checked) << checked.error().ToString() << ToString(*plan);
  const auto groups = GroupsIn(*plan);
  ASSERT_EQ(groups.size(), 1u) << ToString(*plan);
  EXPECT_EQ(groups[0]->launches.size(), 4u) << ToString(*plan);
  EXPECT_GE(plan->arena_size, 256 * 32 * 4);
}

// A plan whose strides lead out of an array is refused.
TEST(RowGroupPlanTest, StridesAreChecked) {
  auto plan = PlanText(Chain(256, 128), Rows(1, 64 * 128 * 4 * 2));
  ASSERT_TRUE(plan) << plan.error().ToString();
  for (Step& step : plan->steps.steps)
    if (auto* group = std::get_if<RowGroupStep>(&step)) group->grid = Dims({5});
  EXPECT_FALSE(CheckPlan(*plan));
}

// out[i, j] = in[j, i] over blocks of i.
TEST(RowKernelTest, TakesABlock) {
  auto plan = PlanText(R"(HloModule m
ENTRY main {
  a = f32[12,8] parameter(0)
  row = s32[8,12] iota(), iota_dimension=0
  f = f32[8,12] convert(row)
  t = f32[8,12] transpose(a), dimensions={1,0}
  ROOT s = f32[8,12] add(t, f)
})");
  ASSERT_TRUE(plan) << plan.error().ToString();
  const KernelPlan& whole = plan->kernels.at(0);
  ASSERT_EQ(FreeDims(whole), Dims({8, 12}));
  const auto block = TakeBlock(SplitFree(whole, 0, 2), std::vector<int>{0, -1, -1}, Dims({4}));
  ASSERT_TRUE(block.has_value());
  EXPECT_EQ(FreeDims(block->kernel), Dims({2, 12}));
  std::vector<std::string> loads;
  for (std::size_t b = 0; b < block->bindings.size(); ++b) {
    const BlockKernel::From& from = block->bindings[b];
    const Binding& binding = block->kernel.bindings[b];
    loads.push_back(Format("{}+{} by {}: {}{}", from.binding, from.first, from.strides[0], binding.element_count,
                           binding.written ? " written" : ""));
  }
  EXPECT_EQ(loads, (std::vector<std::string>{"-1+0 by 0: 1", "0+0 by 2: 90", "1+0 by 24: 24 written"}));
}

}  // namespace
}  // namespace krafla::plan
