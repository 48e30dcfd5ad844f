// SPDX-License-Identifier: Apache-2.0
#include "plan/touched.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan_text.h"

namespace krafla::plan {
namespace {

Result<KernelPlan> OnlyKernelOf(std::string_view text) {
  KRAFLA_ASSIGN(ProgramPlan plan, PlanText(text));
  if (plan.kernels.size() != 1) return Internal("There are {} kernels.", plan.kernels.size());
  return std::move(plan.kernels[0]);
}

// Rows of a table are moved, not the table.
TEST(TouchedTest, GathersMoveWhatTheyRead) {
  auto kernel = OnlyKernelOf(R"(HloModule m
ENTRY main {
  table = f32[1000,64] parameter(0)
  i = s32[] parameter(1)
  zero = s32[] constant(0)
  ROOT row = f32[1,64] dynamic-slice(table, i, zero), dynamic_slice_sizes={1,64}
})");
  ASSERT_TRUE(kernel) << kernel.error().ToString();
  EXPECT_EQ(BytesMoved(*kernel), 4.0 * (64 + 1 + 64));
  const auto touched = TouchedBy(*kernel);
  ASSERT_TRUE(touched);
  const auto table = std::ranges::find(kernel->bindings, 64000, &Binding::element_count) - kernel->bindings.begin();
  EXPECT_EQ((*touched)[static_cast<std::size_t>(table)].range, (Interval{0, 63999}));
}

TEST(TouchedTest, ElementsThatAreReadAgainCountOnce) {
  auto kernel = OnlyKernelOf(R"(HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY main {
  x = f32[32,64] parameter(0)
  zero = f32[] constant(0)
  sum = f32[32] reduce(x, zero), dimensions={1}, to_apply=add
  wide = f32[32,64] broadcast(sum), dimensions={0}
  ROOT y = f32[32,64] divide(x, wide)
})");
  ASSERT_TRUE(kernel) << kernel.error().ToString();
  EXPECT_EQ(BytesMoved(*kernel), 4.0 * 2 * 32 * 64);
}

TEST(TouchedTest, OperandsOfDotsWithoutAStrideCountOnce) {
  auto kernel = OnlyKernelOf(R"(HloModule m
ENTRY main {
  a = f32[8,4,16] parameter(0)
  b = f32[16,32] parameter(1)
  ROOT c = f32[8,4,32] dot(a, b), lhs_contracting_dims={2}, rhs_contracting_dims={0}
})");
  ASSERT_TRUE(kernel) << kernel.error().ToString();
  EXPECT_EQ(BytesMoved(*kernel), 4.0 * (8 * 4 * 16 + 16 * 32 + 8 * 4 * 32));
}

}  // namespace
}  // namespace krafla::plan
