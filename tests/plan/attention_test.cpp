// SPDX-License-Identifier: Apache-2.0
// Which launches become one AttentionKernel, and between which columns its rows have scores.
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/plan_check.h"
#include "plan/plan_log.h"
#include "plan/step_runner.h"
#include "plan_text.h"

namespace krafla::plan {
namespace {

// `mask`: makes x, f32[2,16,64], of w; `results`: more results than the product's.
std::string AttentionText(std::string_view mask, std::string_view results = "") {
  return Format(R"(HloModule attention
max {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }}
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }}
ENTRY main {{
  q = f32[2,16,8] parameter(0)
  k = f32[2,64,8] parameter(1)
  v = f32[2,64,8] parameter(2)
  pos = s32[] parameter(3)
  w = f32[2,16,64] dot(q, k), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{2}}
  row = s32[16,64] iota(), iota_dimension=0
  column = s32[16,64] iota(), iota_dimension=1
  positions = s32[16,64] broadcast(pos), dimensions={{}}
  low = f32[] constant(-1e30)
  lows = f32[2,16,64] broadcast(low), dimensions={{}}
  {0}
  inf = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[2,16] reduce(x, inf), dimensions={{2}}, to_apply=max
  mb = f32[2,16,64] broadcast(m), dimensions={{0,1}}
  y = f32[2,16,64] subtract(x, mb)
  e = f32[2,16,64] exponential(y)
  s = f32[2,16] reduce(e, zero), dimensions={{2}}, to_apply=add
  sb = f32[2,16,64] broadcast(s), dimensions={{0,1}}
  p = f32[2,16,64] divide(e, sb)
  o = f32[2,16,8] dot(p, v), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{1}}
  ROOT t = (f32[2,16,8]{1}) tuple(o{2})
}})",
                mask, results.empty() ? "" : ", f32[2,16,64]", results);
}
constexpr std::string_view kNoMask = "x = f32[2,16,64] copy(w)";
std::string Selected(std::string_view pred) {
  return Format(
      "{}\n  keeps = pred[2,16,64] broadcast(keep), dimensions={{1,2}}\n  x = f32[2,16,64] select(keeps, w, lows)",
      pred);
}

PlanOptions AttentionOptions(PlanLog* log = nullptr) {
  PlanOptions out;
  out.row_groups.enabled = true;
  out.row_groups.takes_attention = [](const KernelPlan&) { return true; };
  out.fusion.log = log;
  return out;
}

const AttentionKernel* OnlyAttention(const ProgramPlan& plan) {
  return plan.kernels.size() == 1 ? std::get_if<AttentionKernel>(&plan.kernels[0].body) : nullptr;
}

TEST(AttentionPlanTest, ThreeLaunchesAreOne) {
  PlanLog log;
  auto plan = PlanText(AttentionText(kNoMask), AttentionOptions(&log));
  ASSERT_TRUE(plan) << plan.error().ToString();
  const Result<> checked = CheckPlan(*plan);
  EXPECT_TRUE(checked) << checked.error().ToString();
  const AttentionKernel* attention = OnlyAttention(*plan);
  ASSERT_NE(attention, nullptr) << ToString(*plan);
  EXPECT_EQ(attention->scores->batch, Dims({2}));
  EXPECT_EQ(attention->scores->m, 16);
  EXPECT_EQ(attention->rows.row_dims, Dims({2, 16}));
  EXPECT_FALSE(attention->limits.has_value());
  EXPECT_EQ(plan->arena_size, 0);
  ASSERT_EQ(log.row_groups.size(), 1u);
  EXPECT_NE(Says(log.row_groups[0]).find("are one kernel"), std::string::npos) << Says(log.row_groups[0]);
  // Its parts are the launches that there were, over two buffers more.
  const std::vector<KernelPlan> parts = PartsOfAttention(plan->kernels[0], *attention);
  ASSERT_EQ(parts.size(), 3u);
  for (const KernelPlan& part : parts) EXPECT_EQ(part.bindings.size(), plan->kernels[0].bindings.size() + 2);
}

TEST(AttentionPlanTest, NotWhereADeviceDoesNotTakeIt) {
  PlanLog log;
  PlanOptions options = AttentionOptions(&log);
  options.row_groups.takes_attention = [](const KernelPlan&) { return false; };
  auto plan = PlanText(AttentionText(kNoMask), options);
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_EQ(plan->kernels.size(), 3u);
  ASSERT_FALSE(log.row_groups.empty());
  EXPECT_NE(Says(log.row_groups[0]).find("not one kernel: the device"), std::string::npos) << Says(log.row_groups[0]);
}

// Attention whose product is divided by the sum that its operand is not; `divisor` has an element a row, of what a row
// stage makes of the sum `z`. `results`: more results than the quotient.
std::string DividedBehind(std::string_view divisor, std::string_view results = "") {
  return Format(R"(HloModule behind
max {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }}
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }}
ENTRY main {{
  q = f32[2,16,8] parameter(0)
  k = f32[2,64,8] parameter(1)
  v = f32[2,64,8] parameter(2)
  s = f32[2,16,64] dot(q, k), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}
  row = s32[16,64] iota(), iota_dimension=0
  column = s32[16,64] iota(), iota_dimension=1
  keep = pred[16,64] compare(row, column), direction=GE
  keeps = pred[2,16,64] broadcast(keep), dimensions={{1,2}}
  low = f32[] constant(-inf)
  lows = f32[2,16,64] broadcast(low), dimensions={{}}
  x = f32[2,16,64] select(keeps, s, lows)
  m = f32[2,16] reduce(x, low), dimensions={{2}}, to_apply=max
  mb = f32[2,16,64] broadcast(m), dimensions={{0,1}}
  t = f32[2,16,64] subtract(x, mb)
  e = f32[2,16,64] exponential(t)
  zero = f32[] constant(0)
  z = f32[2,16] reduce(e, zero), dimensions={{2}}, to_apply=add
  o = f32[2,16,8] dot(e, v), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}
  {0}
  zb = f32[2,16,8] broadcast(d), dimensions={{0,1}}
  r = f32[2,16,8] divide(o, zb)
  ROOT t2 = (f32[2,16,8]{1}) tuple(r{2})
}})",
                divisor, results.empty() ? "" : ", f32[2,16]", results);
}

// A sum that the product behind divides by is an array more between the kernels, with an element a row.
TEST(AttentionPlanTest, DividesBehindTheProduct) {
  PlanLog log;
  auto plan = PlanText(DividedBehind("d = f32[2,16] copy(z)"), AttentionOptions(&log));
  ASSERT_TRUE(plan) << plan.error().ToString();
  const Result<> checked = CheckPlan(*plan);
  EXPECT_TRUE(checked) << checked.error().ToString();
  const AttentionKernel* attention = OnlyAttention(*plan);
  ASSERT_NE(attention, nullptr) << Says(log.row_groups[0]);
  EXPECT_EQ(plan->arena_size, 0);
  EXPECT_TRUE(attention->limits.has_value());
  const std::vector<KernelPlan> parts = PartsOfAttention(plan->kernels[0], *attention);
  for (const KernelPlan& part : parts) {
    ASSERT_EQ(part.bindings.size(), plan->kernels[0].bindings.size() + 3);
    EXPECT_EQ(part.bindings.back().element_count, 32);
  }
}

// A divisor of other rows, and one that somebody else reads too.
TEST(AttentionPlanTest, SaysWhyADivisionBehindIsNotOneKernel) {
  auto plan = PlanText(DividedBehind("d = f32[2,16] reverse(z), dimensions={1}"), AttentionOptions());
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_EQ(OnlyAttention(*plan), nullptr);
  PlanLog log;
  plan = PlanText(DividedBehind("d = f32[2,16] copy(z)", ", z"), AttentionOptions(&log));
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_EQ(OnlyAttention(*plan), nullptr);
  ASSERT_FALSE(log.row_groups.empty());
  EXPECT_EQ(log.row_groups[0].not_one_kernel, NotOneKernel::kOthers) << Says(log.row_groups[0]);
}

// Attention of few queries over a donated cache, `updated`, whose update stands behind the scores.
std::string UpdatedBetween(std::string_view updated, std::string_view keys, std::string_view values) {
  return Format(R"(HloModule attention, input_output_alias={{ {{1}}: ({3}, {{}}, may-alias) }}
max {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }}
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }}
ENTRY main {{
  q = f32[2,4,8] parameter(0)
  k = f32[2,64,8] parameter(1)
  v = f32[2,64,8] parameter(2)
  pos = s32[] parameter(3)
  row = f32[2,1,8] parameter(4)
  none = s32[] constant(0)
  inf = f32[] constant(-inf)
  zero = f32[] constant(0)
  x = f32[2,4,64] dot(q, {1}), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{2}}
  m = f32[2,4] reduce(x, inf), dimensions={{2}}, to_apply=max
  mb = f32[2,4,64] broadcast(m), dimensions={{0,1}}
  y = f32[2,4,64] subtract(x, mb)
  e = f32[2,4,64] exponential(y)
  s = f32[2,4] reduce(e, zero), dimensions={{2}}, to_apply=add
  sb = f32[2,4,64] broadcast(s), dimensions={{0,1}}
  p = f32[2,4,64] divide(e, sb)
  new = f32[2,64,8] dynamic-update-slice({0}, row, none, pos, none)
  o = f32[2,4,8] dot(p, {2}), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{1}}
  ROOT t = (f32[2,4,8], f32[2,64,8]) tuple(o, new)
}})",
                updated, keys, values, updated == "v" ? 2 : 1);
}

bool HasAttention(const ProgramPlan& plan) {
  return std::ranges::any_of(
      plan.kernels, [](const KernelPlan& kernel) { return std::holds_alternative<AttentionKernel>(kernel.body); });
}

// The update of a donated cache between the scores and the product runs before them, unless they read what was there.
TEST(AttentionPlanTest, UpdatesOfCachesBetween) {
  auto plan = PlanText(UpdatedBetween("v", "k", "new"), AttentionOptions());
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_TRUE(HasAttention(*plan)) << ToString(*plan);
  EXPECT_EQ(plan->result_aliases[1], 2);
  const Result<> checked = CheckPlan(*plan);
  EXPECT_TRUE(checked) << checked.error().ToString();
  plan = PlanText(UpdatedBetween("k", "k", "new"), AttentionOptions());
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_FALSE(HasAttention(*plan)) << ToString(*plan);
}

// Grouped heads without a mask as jax.nn.dot_product_attention writes them: the scores are stored as they are
// transposed.
TEST(AttentionPlanTest, ScoresInAnotherOrderOfRows) {
  auto plan = PlanText(R"(HloModule attention
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY main {
  q = f32[2,16,3,8] parameter(0)
  k = f32[2,64,8] parameter(1)
  v = f32[2,64,8] parameter(2)
  w = f32[2,16,3,64] dot(q, k), lhs_batch_dims={0}, lhs_contracting_dims={3}, rhs_batch_dims={0}, rhs_contracting_dims={2}
  scale = f32[] constant(0.25)
  scales = f32[2,16,3,64] broadcast(scale), dimensions={}
  scaled = f32[2,16,3,64] multiply(w, scales)
  x = f32[3,2,16,64] transpose(scaled), dimensions={2,0,1,3}
  inf = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[3,2,16] reduce(x, inf), dimensions={3}, to_apply=max
  mb = f32[3,2,16,64] broadcast(m), dimensions={0,1,2}
  y = f32[3,2,16,64] subtract(x, mb)
  e = f32[3,2,16,64] exponential(y)
  s = f32[3,2,16] reduce(e, zero), dimensions={3}, to_apply=add
  sb = f32[3,2,16,64] broadcast(s), dimensions={0,1,2}
  p = f32[3,2,16,64] divide(e, sb)
  ROOT o = f32[2,3,16,8] dot(p, v), lhs_batch_dims={1}, lhs_contracting_dims={3}, rhs_batch_dims={0}, rhs_contracting_dims={1}
})",
                       AttentionOptions());
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_NE(OnlyAttention(*plan), nullptr) << ToString(*plan);
}

// What somebody else reads has to be stored.
TEST(AttentionPlanTest, NotWhereItsArraysAreResults) {
  for (std::string_view result : {", x", ", p"}) {
    auto plan = PlanText(AttentionText(kNoMask, result), AttentionOptions());
    ASSERT_TRUE(plan) << plan.error().ToString();
    EXPECT_EQ(OnlyAttention(*plan), nullptr) << result;
  }
}

// A mask that is added has limits where what it is added to is a multiple of the product.
TEST(AttentionPlanTest, LimitsOfAddedMasks) {
  struct Case {
    std::string_view scores;
    double factor;  // 0: none
  };
  for (const Case& c : {Case{"x = f32[2,16,64] add(w, biases)", 1}, Case{"x = f32[2,16,64] add(biases, scaled)", 4},
                        Case{"x = f32[2,16,64] add(bent, biases)", 0}}) {
    const std::string mask = Format(R"(keep = pred[16,64] compare(column, positions), direction=LE
  keeps = pred[2,16,64] broadcast(keep), dimensions={{1,2}}
  nothing = f32[] constant(0)
  nothings = f32[2,16,64] broadcast(nothing), dimensions={{}}
  biases = f32[2,16,64] select(keeps, nothings, lows)
  four = f32[] constant(-4)
  fours = f32[2,16,64] broadcast(four), dimensions={{}}
  scaled = f32[2,16,64] multiply(w, fours)
  bent = f32[2,16,64] exponential(w)
  {})",
                                    c.scores);
    for (const bool takes : {false, true}) {
      PlanOptions options = AttentionOptions();
      options.row_groups.limits_added_masks = takes;
      auto plan = PlanText(AttentionText(mask), options);
      ASSERT_TRUE(plan) << plan.error().ToString();
      const AttentionKernel* attention = OnlyAttention(*plan);
      ASSERT_NE(attention, nullptr) << ToString(*plan);
      ASSERT_EQ(attention->limits.has_value(), takes && c.factor > 0) << c.scores;
      if (!attention->limits) continue;
      EXPECT_EQ(attention->limits->ends, 1);
      ASSERT_TRUE(attention->limits->added.has_value());
      EXPECT_NEAR(*attention->limits->added, c.factor, 0.02 * c.factor);
    }
  }
}

// One mask of many layers, which is compared where it is read: a stored one would say nothing of columns.
TEST(AttentionPlanTest, LimitsOfOneMaskOfManyLayers) {
  constexpr int kLayers = 14;
  std::string layers, results, shapes;
  for (int i = 0; i < kLayers; ++i) {
    layers += Format(R"(
  by{0} = f32[] constant({0}.5)
  bys{0} = f32[2,16,8] broadcast(by{0}), dimensions={{}}
  q{0} = f32[2,16,8] multiply(q, bys{0})
  w{0} = f32[2,16,64] dot(q{0}, k), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{2}}
  x{0} = f32[2,16,64] select(keeps, w{0}, lows)
  m{0} = f32[2,16] reduce(x{0}, inf), dimensions={{2}}, to_apply=max
  mb{0} = f32[2,16,64] broadcast(m{0}), dimensions={{0,1}}
  y{0} = f32[2,16,64] subtract(x{0}, mb{0})
  e{0} = f32[2,16,64] exponential(y{0})
  z{0} = f32[2,16] reduce(e{0}, zero), dimensions={{2}}, to_apply=add
  sb{0} = f32[2,16,64] broadcast(z{0}), dimensions={{0,1}}
  p{0} = f32[2,16,64] divide(e{0}, sb{0})
  o{0} = f32[2,16,8] dot(p{0}, v), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{1}})",
                     i);
    results += Format("{}o{}", i > 0 ? ", " : "", i);
    shapes += Format("{}f32[2,16,8]", i > 0 ? ", " : "");
  }
  for (std::string_view keep : {"keep = pred[64] copy(past)", "keep = pred[64] and(past, near)"}) {
    auto plan = PlanText(Format(R"(HloModule layers
max {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }}
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }}
ENTRY main {{
  q = f32[2,16,8] parameter(0)
  k = f32[2,64,8] parameter(1)
  v = f32[2,64,8] parameter(2)
  pos = s32[] parameter(3)
  column = s32[64] iota(), iota_dimension=0
  positions = s32[64] broadcast(pos), dimensions={{}}
  past = pred[64] compare(column, positions), direction=LE
  width = s32[] constant(9)
  first = s32[] subtract(pos, width)
  firsts = s32[64] broadcast(first), dimensions={{}}
  near = pred[64] compare(column, firsts), direction=GT
  {}
  row = pred[1,64] reshape(keep)
  again = pred[64] reshape(row)
  keeps = pred[2,16,64] broadcast(again), dimensions={{2}}
  low = f32[] constant(-1e30)
  lows = f32[2,16,64] broadcast(low), dimensions={{}}
  inf = f32[] constant(-inf)
  zero = f32[] constant(0)
  {}
  ROOT t = ({}) tuple({})
}})",
                                keep, layers, shapes, results),
                         AttentionOptions());
    ASSERT_TRUE(plan) << plan.error().ToString();
    int with_limits = 0;
    ForEachLaunch(*plan, [&](const LaunchStep& launch) {
      const KernelPlan& kernel = plan->kernels[static_cast<std::size_t>(launch.kernel)];
      const auto* attention = std::get_if<AttentionKernel>(&kernel.body);
      if (attention != nullptr && attention->limits) ++with_limits;
    });
    EXPECT_EQ(with_limits, kLayers) << ToString(*plan);
  }
}

struct LimitCase {
  std::string_view keep;
  int ends, begins;
};
TEST(AttentionPlanTest, LimitsOfMasks) {
  constexpr LimitCase kCases[] = {
      {"keep = pred[16,64] compare(row, column), direction=GE", 1, 0},
      {"keep = pred[16,64] compare(column, row), direction=GT", 0, 1},
      {"keep = pred[16,64] compare(column, positions), direction=LE", 1, 0},
      {"keep = pred[16,64] compare(column, row), direction=EQ", 1, 1},
      {"keep = pred[16,64] compare(column, row), direction=NE", 0, 0},
      {"a = pred[16,64] compare(column, row), direction=LE\n  b = pred[16,64] compare(positions, column), direction=LT\n"
       "  keep = pred[16,64] and(a, b)",
       1, 1},
      {"a = pred[16,64] compare(column, row), direction=GT\n  b = pred[16,64] compare(positions, column), direction=GT\n"
       "  c = pred[16,64] or(a, b)\n  keep = pred[16,64] not(c)",
       1, 1},
      {"a = pred[16,64] compare(column, row), direction=GT\n  b = pred[16,64] compare(positions, column), direction=GT\n"
       "  keep = pred[16,64] or(a, b)",
       0, 0},
      {"d = s32[16,64] subtract(row, column)\n  nine = s32[] constant(9)\n"
       "  nines = s32[16,64] broadcast(nine), dimensions={}\n  keep = pred[16,64] compare(d, nines), direction=LT",
       0, 1},
      // Twice the column is no column.
      {"d = s32[16,64] add(column, column)\n  keep = pred[16,64] compare(d, row), direction=LT", 0, 0},
      // What may wrap around says nothing.
      {"d = s32[16,64] add(column, positions)\n  keep = pred[16,64] compare(d, row), direction=LT", 0, 0},
  };
  for (const LimitCase& c : kCases) {
    auto plan = PlanText(AttentionText(Selected(c.keep)), AttentionOptions());
    ASSERT_TRUE(plan) << plan.error().ToString();
    const AttentionKernel* attention = OnlyAttention(*plan);
    ASSERT_NE(attention, nullptr) << c.keep << "\n" << ToString(*plan);
    ASSERT_EQ(attention->limits.has_value(), c.ends + c.begins > 0) << c.keep;
    if (!attention->limits) continue;
    EXPECT_EQ(attention->limits->ends, c.ends) << c.keep;
    EXPECT_EQ(attention->limits->program.results.size(), static_cast<std::size_t>(c.ends + c.begins)) << c.keep;
    EXPECT_GT(attention->limits->least, -1e30);
  }
}

}  // namespace
}  // namespace krafla::plan
