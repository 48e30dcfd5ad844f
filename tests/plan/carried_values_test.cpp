// SPDX-License-Identifier: Apache-2.0
// Arrays go through inner loops and conditionals of a loop where they lie.
#include "plan/carried_values.h"

#include <gtest/gtest.h>

#include "plan/planner.h"
#include "plan_text.h"

namespace krafla::plan {
namespace {

int ArrayCopies(const StepList& steps) {
  int n = 0;
  for (const Step& step : steps.steps) {
    if (const auto* copy = std::get_if<CopyStep>(&step)) n += copy->from.size > 8;
    if (const auto* loop = std::get_if<WhileStep>(&step)) n += ArrayCopies(*loop->body);
    if (const auto* branches = std::get_if<ConditionalStep>(&step))
      for (const auto& branch : branches->branches) n += ArrayCopies(*branch);
  }
  return n;
}

// The copies of arrays within a loop over two arrays; -1: there is no plan.
int CopiesInLoop(std::string_view body) {
  auto plan = PlanText(Format(R"(HloModule m
turns {{ s = (s32[], f32[999,999], f32[999,999]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT l = pred[] compare(i, n), direction=LT }}
put {{ s = (s32[], f32[999,999], f32[999,999]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[999,999] get-tuple-element(s), index=1
  y = f32[999,999] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  row = f32[1,999] dynamic-slice(y, i, zero), dynamic_slice_sizes={{1,999}}
  x2 = f32[999,999] dynamic-update-slice(x, row, j, zero)
  ROOT t = (s32[], f32[999,999], f32[999,999]) tuple(j, x2, y) }}
pass {{ ROOT s = (s32[], f32[999,999], f32[999,999]) parameter(0) }}
trade {{ s = (s32[], f32[999,999], f32[999,999]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[999,999] get-tuple-element(s), index=1
  y = f32[999,999] get-tuple-element(s), index=2
  ROOT t = (s32[], f32[999,999], f32[999,999]) tuple(i, y, x) }}
step {{ s = (s32[], f32[999,999], f32[999,999]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[999,999] get-tuple-element(s), index=1
  y = f32[999,999] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  one = s32[] constant(1)
  j = s32[] add(i, one)
{} }}
ENTRY e {{ p = f32[999,999] parameter(0)
  q = f32[999,999] parameter(1)
  zero = s32[] constant(0)
  s = (s32[], f32[999,999], f32[999,999]) tuple(zero, p, q)
  ROOT w = (s32[], f32[999,999], f32[999,999]) while(s), condition=turns, body=step }})",
                              body));
  if (!plan) return -1;
  for (const Step& step : plan->steps.steps)
    if (const auto* loop = std::get_if<WhileStep>(&step)) return ArrayCopies(*loop->body);
  return -1;
}

constexpr std::string_view kResults = R"(
  x2 = f32[999,999] get-tuple-element(w), index=1
  y2 = f32[999,999] get-tuple-element(w), index=2
  ROOT t = (s32[], f32[999,999], f32[999,999]) tuple(j, x2, y2))";

TEST(CarriedValuesTest, InnerLoops) {
  const auto inner = [](std::string_view init, std::string_view rest) {
    return Format(
        "  t0 = (s32[], f32[999,999], f32[999,999]) tuple({})\n"
        "  w = (s32[], f32[999,999], f32[999,999]) while(t0), condition=turns, body=put{}",
        init, rest);
  };
  EXPECT_EQ(CopiesInLoop(inner("zero, x, y", kResults)), 0);
  // The array is needed as it was.
  EXPECT_GT(CopiesInLoop(inner("zero, x, y", R"(
  x2 = f32[999,999] get-tuple-element(w), index=1
  y2 = f32[999,999] subtract(x2, x)
  ROOT t = (s32[], f32[999,999], f32[999,999]) tuple(j, x2, y2))")),
            0);
  EXPECT_GT(CopiesInLoop(inner("zero, x, x", kResults)), 0);
}

TEST(CarriedValuesTest, Conditionals) {
  const auto branches = [](std::string_view names, std::string_view rest) {
    return Format(
        "  t0 = (s32[], f32[999,999], f32[999,999]) tuple(i, x, y)\n"
        "  w = (s32[], f32[999,999], f32[999,999]) conditional(i, t0, t0), branch_computations={{{}}}{}",
        names, rest);
  };
  EXPECT_EQ(CopiesInLoop(branches("put, pass", kResults)), 0);
  EXPECT_EQ(CopiesInLoop(branches("pass, put", kResults)), 0);
  EXPECT_GT(CopiesInLoop(branches("pass, trade", kResults)), 0);
  EXPECT_GT(CopiesInLoop(branches("put, pass", R"(
  x2 = f32[999,999] get-tuple-element(w), index=1
  y2 = f32[999,999] subtract(x2, x)
  ROOT t = (s32[], f32[999,999], f32[999,999]) tuple(j, x2, y2))")),
            0);
}

TEST(CarriedValuesTest, ProductsThatReadWhatTheyArePutInto) {
  EXPECT_EQ(CopiesInLoop(R"(  row = f32[1,999] dynamic-slice(x, i, zero), dynamic_slice_sizes={1,999}
  p = f32[1,999] dot(row, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  old = f32[1,999] dynamic-slice(x, j, zero), dynamic_slice_sizes={1,999}
  sum = f32[1,999] add(p, old)
  x2 = f32[999,999] dynamic-update-slice(x, sum, j, zero)
  ROOT t = (s32[], f32[999,999], f32[999,999]) tuple(j, x2, y))"),
            0);
}

// An update of one array in the place of another, computed from that one where it writes: the copy that it begins with
// would come first.
TEST(CarriedValuesTest, UpdatesInThePlaceOfWhatTheyRead) {
  EXPECT_GT(CopiesInLoop(R"(  row = f32[1,999] dynamic-slice(x, i, zero), dynamic_slice_sizes={1,999}
  x2 = f32[999,999] dynamic-update-slice(y, row, i, zero)
  y2 = f32[999,999] add(y, y)
  ROOT t = (s32[], f32[999,999], f32[999,999]) tuple(j, x2, y2))"),
            1);
}

}  // namespace
}  // namespace krafla::plan
