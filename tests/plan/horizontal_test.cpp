// SPDX-License-Identifier: Apache-2.0
// Which launches become one (HorizontalKernel).
#include "plan/horizontal.h"

#include <gtest/gtest.h>

#include "plan/plan_check.h"
#include "plan/step_runner.h"
#include "plan_text.h"

namespace krafla::plan {
namespace {

PlanOptions HorizontalOptions() {
  PlanOptions out;
  out.takes_horizontal = [](const KernelPlan&) { return true; };
  return out;
}

// The launches of a plan by their kernels: "dot+dot[-1,0] loop".
std::string LaunchesOf(std::string_view text, const PlanOptions& options = HorizontalOptions()) {
  auto plan = PlanText(text, options);
  if (!plan) return plan.error().ToString();
  if (auto checked = CheckPlan(*plan); !checked) return checked.error().ToString();
  std::string out;
  ForEachLaunch(*plan, [&](const LaunchStep& launch) {
    const KernelPlan& kernel = plan->kernels[static_cast<std::size_t>(launch.kernel)];
    out += out.empty() ? "" : " ";
    const auto* horizontal = std::get_if<HorizontalKernel>(&kernel.body);
    if (horizontal == nullptr) {
      out += FamilyName(kernel);
      return;
    }
    const std::vector<int> follows = FollowedParts(*horizontal);
    std::size_t p = 0;
    for (const KernelPlan& part : PartsOfHorizontal(kernel, *horizontal)) {
      out += Format("{}{}", p == 0 ? "" : "+", FamilyName(part));
      if (follows[p] >= 0) out += Format("({})", follows[p]);
      ++p;
    }
  });
  return out;
}

constexpr std::string_view kProducts = R"(HloModule products
ENTRY main {
  x = f32[1,64] parameter(0)
  wq = f32[64,48] parameter(1)
  wk = f32[64,16] parameter(2)
  wv = f32[64,16] parameter(3)
  q = f32[1,48] dot(x, wq), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  k = f32[1,16] dot(x, wk), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  v = f32[1,16] dot(x, wv), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[1,48], f32[1,16], f32[1,16]) tuple(q, k, v)
})";

TEST(HorizontalTest, ProductsOfOneVectorAreOneLaunch) {
  EXPECT_EQ(LaunchesOf(kProducts), "dot+dot+dot");
  auto plan = PlanText(kProducts, HorizontalOptions());
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->kernels.size(), 1u) << "the kernels of the launches that there were are still there";
  EXPECT_EQ(plan->kernels[0].bindings.size(), 7u) << "the vector is bound once";
}

TEST(HorizontalTest, NotWhereADeviceDoesNotTakeIt) {
  PlanOptions options;
  EXPECT_EQ(LaunchesOf(kProducts, options), "dot dot dot");
  // Two of them at the most.
  options.takes_horizontal = [](const KernelPlan& kernel) {
    return std::get<HorizontalKernel>(kernel.body).parts.size() <= 2;
  };
  EXPECT_EQ(LaunchesOf(kProducts, options), "dot+dot dot");
}

TEST(HorizontalTest, KeepsToTheBuffersOfAKernel) {
  PlanOptions options = HorizontalOptions();
  options.fusion.buffer_limit = 5;
  EXPECT_EQ(LaunchesOf(kProducts, options), "dot+dot dot");
}

// %0: what becomes of both products.
std::string Gated(std::string_view result) {
  return Format(R"(HloModule gated
ENTRY main {{
  x = f32[1,64] parameter(0)
  wg = f32[64,96] parameter(1)
  wu = f32[64,96] parameter(2)
  g = f32[1,96] dot(x, wg), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  u = f32[1,96] dot(x, wu), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  {}
}})",
                result);
}

TEST(HorizontalTest, ADotFollowsTheOneWhoseElementsItReads) {
  EXPECT_EQ(LaunchesOf(Gated("a = f32[1,96] tanh(g)\n  ROOT r = f32[1,96] multiply(a, u)")), "dot+dot(0)");
  // Others than its own elements are another invocation's.
  EXPECT_EQ(LaunchesOf(Gated("a = f32[1,96] reverse(g), dimensions={1}\n  ROOT r = f32[1,96] multiply(a, u)")),
            "dot dot");
}

TEST(HorizontalTest, ADotOfAnotherShapeDoesNotFollow) {
  // The halves of the first product's rows are not the elements of the second one.
  EXPECT_EQ(LaunchesOf(R"(HloModule gated
ENTRY main {
  x = f32[1,64] parameter(0)
  wg = f32[64,96] parameter(1)
  wu = f32[64,48] parameter(2)
  g = f32[1,96] dot(x, wg), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  u = f32[1,48] dot(x, wu), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[1,48] slice(g), slice={[0:1], [0:48]}
  a = f32[1,48] tanh(s)
  ROOT r = f32[1,48] multiply(a, u)
})"),
            "dot dot");
}

// The second product overwrites what a launch between the two reads, which reads the first one's result.
TEST(HorizontalTest, NothingIsOverwrittenBeforeItIsRead) {
  EXPECT_EQ(LaunchesOf(R"(HloModule update, input_output_alias={ {1}: (3, {}, may-alias) }
ENTRY main {
  x = f32[1,64] parameter(0)
  wa = f32[64,32] parameter(1)
  wb = f32[64,32] parameter(2)
  cache = f32[8,32] parameter(3)
  at = s32[] parameter(4)
  zero = s32[] constant(0)
  a = f32[1,32] dot(x, wa), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  r = f32[32] reshape(a)
  rows = f32[8,32] broadcast(r), dimensions={1}
  e = f32[8,32] exponential(rows)
  old = f32[8,32] multiply(e, cache)
  b = f32[1,32] dot(x, wb), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  new = f32[8,32] dynamic-update-slice(cache, b, at, zero)
  ROOT t = (f32[8,32], f32[8,32]) tuple(old, new)
})"),
            "dot loop dot");
}

TEST(HorizontalTest, SmallLoopsAreOneLaunch) {
  const auto rotations = [](int64_t n) {
    return Format(R"(HloModule rotations
ENTRY main {{
  q = f32[14,{0}] parameter(0)
  k = f32[2,{0}] parameter(1)
  a = f32[14,{0}] sine(q)
  b = f32[2,{0}] sine(k)
  ROOT t = (f32[14,{0}], f32[2,{0}]) tuple(a, b)
}})",
                  n);
  };
  EXPECT_EQ(LaunchesOf(rotations(64)), "loop+loop");
  EXPECT_EQ(LaunchesOf(rotations(8192)), "loop loop") << "large ones fill a device alone";
}

// Products of x less its mean; %0: of which aliases, %1: of what else there is.
std::string Centered(std::string_view aliases, std::string_view root) {
  return Format(R"(HloModule centered{}
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }}
ENTRY main {{
  x = f32[1,64] parameter(0)
  wa = f32[64,64] parameter(1)
  wb = f32[64,16] parameter(2)
  zero = f32[] constant(0)
  s = f32[1] reduce(x, zero), dimensions={{1}}, to_apply=add
  sixtieth = f32[] constant(0.015625)
  part = f32[1] broadcast(sixtieth), dimensions={{}}
  m = f32[1] multiply(s, part)
  ms = f32[1,64] broadcast(m), dimensions={{0}}
  y = f32[1,64] subtract(x, ms)
  a = f32[1,64] dot(y, wa), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  b = f32[1,16] dot(y, wb), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  {}
}})",
                aliases, root);
}

TEST(HorizontalTest, ProductsComputeTheRowsBeforeThem) {
  PlanOptions options = HorizontalOptions();
  constexpr std::string_view kBoth = "ROOT t = (f32[1,64], f32[1,16]) tuple(a, b)";
  EXPECT_EQ(LaunchesOf(Centered("", kBoth), options), "reduce dot+dot") << "not every device is asked";
  options.rows_in_products = true;
  EXPECT_EQ(LaunchesOf(Centered("", kBoth), options), "reduce+dot+dot");
  auto plan = PlanText(Centered("", kBoth), options);
  ASSERT_TRUE(plan);
  const auto& whole = std::get<HorizontalKernel>(plan->kernels[0].body);
  const int made = std::get<ReduceKernel>(whole.parts[0]).stages.back().program.stores[0].buffer;
  for (std::size_t p : {1, 2}) EXPECT_EQ(std::get<DotKernel>(whole.parts[p]).lhs_binding, made);
  EXPECT_EQ(LaunchesOf(Centered("", "ROOT r = f32[1,64] negate(a)"), options), "reduce+dot") << "one product alone";
  EXPECT_EQ(LaunchesOf(Centered("", "ROOT t = (f32[1,64], f32[1,16], f32[1,64]) tuple(a, b, y)"), options),
            "reduce dot+dot")
      << "the rows are a result";
  EXPECT_EQ(LaunchesOf(Centered("", R"(h = f32[1,64] sine(a)
  c = f32[1,64] add(h, y)
  d = f32[1,64] reverse(c), dimensions={1}
  ROOT t = (f32[1,64], f32[1,16]) tuple(d, b))"),
                       options),
            "reduce dot+dot loop")
      << "something else reads the rows";
}

// One workgroup would read what another one has overwritten.
TEST(HorizontalTest, RowsStayWhereAProductOverwritesWhatTheyRead) {
  const auto update = [](std::string_view aliases) {
    return Format(R"(HloModule update{}
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }}
ENTRY main {{
  states = f32[8,64] parameter(0)
  w = f32[64,64] parameter(1)
  at = s32[] parameter(2)
  zero = s32[] constant(0)
  x = f32[1,64] slice(states), slice={{[3:4], [0:64]}}
  none = f32[] constant(0)
  s = f32[1] reduce(x, none), dimensions={{1}}, to_apply=add
  ss = f32[1,64] broadcast(s), dimensions={{0}}
  y = f32[1,64] divide(x, ss)
  a = f32[1,64] dot(y, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT r = f32[8,64] dynamic-update-slice(states, a, at, zero)
}})",
                  aliases);
  };
  PlanOptions options = HorizontalOptions();
  options.rows_in_products = true;
  EXPECT_EQ(LaunchesOf(update(", input_output_alias={ {}: (0, {}, must-alias) }"), options), "reduce dot");
}

// Turns of two small functions and a product of `width` numbers with a matrix.
std::string Turns(int64_t width) {
  return Format(R"(HloModule turns
cond {{
  s = (s32[], f32[16], f32[4,2], f32[{0}], f32[{0},{0}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(10)
  ROOT c = pred[] compare(i, n), direction=LT
}}
body {{
  s = (s32[], f32[16], f32[4,2], f32[{0}], f32[{0},{0}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[16] get-tuple-element(s), index=1
  y = f32[4,2] get-tuple-element(s), index=2
  v = f32[{0}] get-tuple-element(s), index=3
  w = f32[{0},{0}] get-tuple-element(s), index=4
  one = s32[] constant(1)
  j = s32[] add(i, one)
  a = f32[16] sine(x)
  b = f32[4,2] sine(y)
  d = f32[{0}] dot(v, w), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  ROOT t = (s32[], f32[16], f32[4,2], f32[{0}], f32[{0},{0}]) tuple(j, a, b, d, w)
}}
ENTRY main {{
  x = f32[16] parameter(0)
  y = f32[4,2] parameter(1)
  v = f32[{0}] parameter(2)
  w = f32[{0},{0}] parameter(3)
  zero = s32[] constant(0)
  s = (s32[], f32[16], f32[4,2], f32[{0}], f32[{0},{0}]) tuple(zero, x, y, v, w)
  ROOT r = (s32[], f32[16], f32[4,2], f32[{0}], f32[{0},{0}]) while(s), condition=cond, body=body
}})",
                width);
}

// A loop of little work becomes one kernel, or a tape, of the launches that it has; one of much work only on a device
// that has tapes.
TEST(HorizontalTest, LaunchesOfSmallLoopsStay) {
  PlanOptions options = HorizontalOptions();
  EXPECT_EQ(LaunchesOf(Turns(512), options).find('+'), std::string::npos);
  options.joins_in_loops = true;
  EXPECT_EQ(LaunchesOf(Turns(8), options).find('+'), std::string::npos);
  const std::string launches = LaunchesOf(Turns(512), options);
  EXPECT_NE(launches.find("loop+loop"), std::string::npos) << launches;
}

}  // namespace
}  // namespace krafla::plan
