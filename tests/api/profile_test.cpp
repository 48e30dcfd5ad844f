// SPDX-License-Identifier: Apache-2.0
// What a profile of a run says, on every device.
#include "api_fixture.h"

#include <algorithm>

namespace krafla::testing {
namespace {

constexpr std::string_view kLoopAndProduct = R"(HloModule m
condition {
  s = (s32[], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT go = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,8] get-tuple-element(s), index=1
  next = f32[8,8] add(x, x)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[8,8]) tuple(j, next)
}
ENTRY main {
  x = f32[8,8] parameter(0)
  zero = s32[] constant(0)
  init = (s32[], f32[8,8]) tuple(zero, x)
  loop = (s32[], f32[8,8]) while(init), condition=condition, body=body
  y = f32[8,8] get-tuple-element(loop), index=1
  ROOT out = f32[8,8] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/dot" source_file="f.py" source_line=12}
})";

class ProfileTest : public DeviceTest {
 protected:
  // Compiled, with ones for arguments.
  std::unique_ptr<Executable> Prepare() {
    auto executable = Compile(kLoopAndProduct);
    std::vector<Literal> arguments;
    arguments.push_back(MakeLiteral<float>("f32[8,8]", std::vector<float>(64, 1.0f)));
    if (executable != nullptr) { EXPECT_TRUE(executable->SetArguments(Pointers(arguments))); }
    return executable;
  }
};

TEST_P(ProfileTest, NamesEveryStepAndLeavesTheAnswersAlone) {
  options_.for_profile = true;
  auto executable = Prepare();
  ASSERT_NE(executable, nullptr);
  auto profile = executable->Profile(3);
  ASSERT_TRUE(profile) << profile.error().ToString();
  EXPECT_EQ(profile->runs, 3);
  EXPECT_GT(profile->run_ms, 0);
  const auto dot = std::ranges::find(profile->steps, "dot", &ProfiledStep::family);
  ASSERT_NE(dot, profile->steps.end());
  EXPECT_EQ(dot->times, 1);
  EXPECT_GT(dot->ms, 0);
  EXPECT_EQ(dot->flops, 2.0 * 8 * 8 * 8);
  EXPECT_EQ(dot->bytes, 4.0 * 3 * 8 * 8);
  EXPECT_EQ(dot->instruction, "out");
  EXPECT_EQ(dot->opcode, "dot");
  EXPECT_EQ(dot->op_name, "jit(f)/dot");
  EXPECT_EQ(dot->source, "f.py:12");
  EXPECT_TRUE(dot->place.starts_with(GetParam().selector)) << dot->place;
  EXPECT_EQ(dot->grid[0] > 0, GetParam().selector == "vulkan");
  EXPECT_EQ(dot->variant.empty(), GetParam().selector == "cpu");
  auto results = executable->Results();
  ASSERT_TRUE(results) << results.error().ToString();
  EXPECT_EQ(Values<float>((*results)[0]), std::vector<float>(64, 256.0f));
}

TEST_P(ProfileTest, StepsInLoopsCountTheirTurns) {
  options_.for_profile = true;
  options_.disabled.insert("loops");  // each step of a turn is a launch on Vulkan
  auto executable = Prepare();
  ASSERT_NE(executable, nullptr);
  auto profile = executable->Profile(1);
  ASSERT_TRUE(profile) << profile.error().ToString();
  int64_t most = 0;
  for (const ProfiledStep& step : profile->steps) most = std::max(most, step.times);
  EXPECT_EQ(most, GetParam().selector == "cpu" ? 1 : 5);
}

TEST_P(ProfileTest, WhatCannotBeProfiledSaysSo) {
  auto executable = Prepare();
  ASSERT_NE(executable, nullptr);
  EXPECT_FALSE(executable->Profile(0));
  if (GetParam().selector == "cpu") return;
  auto profile = executable->Profile(1);
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().code(), StatusCode::kFailedPrecondition);
}

INSTANTIATE_TEST_SUITE_P(Devices, ProfileTest, ::testing::ValuesIn(DeviceCases()), CaseName);

}  // namespace
}  // namespace krafla::testing
