// SPDX-License-Identifier: Apache-2.0
// Bounded dynamic dimensions through the API: arguments of run-time size in, results of run-time size out, on every
// device, again and again with the same executable.
#include <algorithm>

#include "api_fixture.h"

namespace krafla::testing {
namespace {

class DynamicTest : public DeviceTest {};

constexpr std::string_view kSumAndSquares = R"(HloModule m
add { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] add(a, b) }
ENTRY main {
  x = f32[<=5,2] parameter(0)
  y = f32[2] parameter(1)
  z = f32[] constant(0)
  s = f32[2] reduce(x, z), dimensions={0}, to_apply=add
  t = f32[2] add(s, y)
  q = f32[<=5,2] multiply(x, x)
  n = s32[] get-dimension-size(q), dimensions={0}
  ROOT r = (f32[2], f32[<=5,2], s32[]) tuple(t, q, n)
})";

TEST_P(DynamicTest, SizesChangeFromRunToRun) {
  auto executable = Compile(kSumAndSquares);
  ASSERT_NE(executable, nullptr);
  ASSERT_EQ(executable->arguments().size(), 2u);
  EXPECT_EQ(executable->arguments()[0].ToString(false), "f32[<=5,2]");
  ASSERT_EQ(executable->results().size(), 3u);
  EXPECT_EQ(executable->results()[1].ToString(false), "f32[<=5,2]");
  EXPECT_TRUE(executable->report().fallbacks.empty());
  // The largest first, so that what it leaves behind is there to be met by the others.
  for (int32_t rows : {5, 3, 0, 1, 5}) {
    SCOPED_TRACE(rows);
    std::vector<float> x, squares;
    float even = 10, odd = 20;
    for (int k = 0; k < 2 * rows; ++k) {
      x.push_back(static_cast<float>(k + 1));
      squares.push_back(x.back() * x.back());
      (k % 2 == 0 ? even : odd) += x.back();
    }
    std::vector<Literal> arguments;
    arguments.push_back(MakeLiteral(Format("f32[{},2]", rows), x));
    arguments.push_back(MakeLiteral<float>("f32[2]", {10, 20}));
    auto got = Run(*executable, arguments);
    ASSERT_EQ(got.size(), 3u);
    EXPECT_EQ(Values<float>(got[0]), (std::vector<float>{even, odd}));
    EXPECT_EQ(got[1].shape().ToString(false), Format("f32[{},2]", rows));
    EXPECT_EQ(Values<float>(got[1]), squares);
    EXPECT_EQ(Values<int32_t>(got[2]), std::vector<int32_t>{rows});
  }
}

TEST_P(DynamicTest, ArgumentsMustFitTheirBounds) {
  auto executable = Compile(kSumAndSquares);
  ASSERT_NE(executable, nullptr);
  for (std::string_view shape : {"f32[6,2]", "f32[5,1]", "f32[10]", "s32[5,2]"}) {
    std::vector<Literal> arguments;
    auto parsed = ParseShape(shape);
    ASSERT_TRUE(parsed.has_value());
    arguments.push_back(*Literal::Create(*parsed));
    arguments.push_back(MakeLiteral<float>("f32[2]", {10, 20}));
    auto set = executable->SetArguments(Pointers(arguments));
    ASSERT_FALSE(set.has_value()) << shape;
    EXPECT_EQ(set.error().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(set.error().message().find("f32[<=5,2]"), std::string::npos) << set.error().message();
    const std::vector<const Literal*> pointers = Pointers(arguments);
    EXPECT_FALSE(executable->SetArguments(std::span(pointers).first(1)).has_value());
  }
}

TEST_P(DynamicTest, ASizeThatTheProgramComputes) {
  auto executable = Compile(R"(HloModule m
less { a = s32[] parameter(0)
 b = s32[] parameter(1)
 ROOT r = pred[] compare(a, b), direction=LT }
ENTRY main {
  x = s32[6] parameter(0)
  n = s32[] parameter(1)
  d = s32[<=6] set-dimension-size(x, n), dimensions={0}
  s = s32[<=6] sort(d), dimensions={0}, to_apply=less
  v = s32[<=6] reverse(s), dimensions={0}
  ROOT r = s32[<=12] concatenate(s, v), dimensions={0}
})");
  ASSERT_NE(executable, nullptr);
  const std::vector<int32_t> x = {5, 3, 9, -1, 7, 2};
  for (int32_t n : {4, 6, 0, 1}) {
    SCOPED_TRACE(n);
    std::vector<int32_t> expected(x.begin(), x.begin() + n);
    std::ranges::sort(expected);
    std::vector<int32_t> back(expected.rbegin(), expected.rend());
    expected.insert(expected.end(), back.begin(), back.end());
    std::vector<Literal> arguments;
    arguments.push_back(MakeLiteral("s32[6]", x));
    arguments.push_back(MakeLiteral<int32_t>("s32[]", {n}));
    auto got = Run(*executable, arguments);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(Values<int32_t>(got[0]), expected);
  }
}

// Selections, running sums and products of ragged rows: all of it on the device, whatever the sizes are.
TEST_P(DynamicTest, WhatIsCombinedOnTheDevice) {
  auto executable = Compile(R"(HloModule m
ge { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = pred[] compare(a, b), direction=GE }
add { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] add(a, b) }
step { a = f32[] parameter(0)
 c = f32[] parameter(1)
 d = f32[] add(c, c)
 s = f32[] add(d, a)
 ROOT r = (f32[], f32[]) tuple(c, s) }
ENTRY main {
  x = f32[<=6] parameter(0)
  s = f32[<=3] parameter(1)
  z = f32[] constant(0)
  y = f32[<=6] add(x, x)
  c = f32[<=6] select-and-scatter(y, s, z), window={size=2 stride=2}, select=ge, scatter=add
  n = f32[<=6] negate(c)
  both = (f32[<=6], f32[]) scan(x, z), dimensions={0}, num_carries=1, is_reverse=true, to_apply=step
  before = f32[<=6] get-tuple-element(both), index=0
  last = f32[] get-tuple-element(both), index=1
  rows = f32[<=6,1] reshape(x)
  w = f32[2,1,1] constant({{{2}},{{3}}})
  g = s32[2] constant({1,2})
  d = f32[<=6,1] ragged-dot(rows, w, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}
  ROOT r = (f32[<=6], f32[<=6], f32[], f32[<=6,1]) tuple(n, before, last, d)
})");
  ASSERT_NE(executable, nullptr);
  EXPECT_TRUE(executable->report().fallbacks.empty());
  auto run = [&](std::vector<float> x, std::vector<float> s) {
    std::vector<Literal> arguments;
    arguments.push_back(MakeLiteral(Format("f32[{}]", x.size()), x));
    arguments.push_back(MakeLiteral(Format("f32[{}]", s.size()), s));
    return Run(*executable, arguments);
  };
  // The largest first, so that what it leaves behind is there to be met by the other.
  auto whole = run({1, 2, 4, 3, 5, 6}, {10, 20, 30});
  ASSERT_EQ(whole.size(), 4u);
  EXPECT_EQ(Values<float>(whole[0]), (std::vector<float>{-0.0f, -10, -20, -0.0f, -0.0f, -30}));
  auto got = run({1, 2, 4, 3}, {10, 20});
  ASSERT_EQ(got.size(), 4u);
  EXPECT_EQ(Values<float>(got[0]), (std::vector<float>{-0.0f, -10, -20, -0.0f}));
  EXPECT_EQ(Values<float>(got[1]), (std::vector<float>{22, 10, 3, 0}));
  EXPECT_EQ(Values<float>(got[2]), (std::vector<float>{45}));
  EXPECT_EQ(Values<float>(got[3]), (std::vector<float>{2, 6, 12, 0}));
}

// No rule makes this static, so the evaluator runs it with its sizes; the report says so.
TEST_P(DynamicTest, WhatIsLeftToTheEvaluator) {
  auto executable = Compile(R"(HloModule m
ENTRY main {
  x = f32[<=3,<=3] parameter(0)
  y = f32[<=3,<=3] add(x, x)
  c = f32[<=3,<=3] cholesky(y), lower=true
  ROOT r = f32[<=3,<=3] negate(c)
})");
  ASSERT_NE(executable, nullptr);
  EXPECT_EQ(executable->report().fallbacks.size(), GetParam().selector == "cpu" ? 0u : 1u);
  std::vector<Literal> arguments;
  arguments.push_back(MakeLiteral<float>("f32[2,2]", {2, 1, 1, 2.5f}));
  auto got = Run(*executable, arguments);
  ASSERT_EQ(got.size(), 1u);
  const auto values = Values<float>(got[0]);
  ASSERT_EQ(values.size(), 4u);
  EXPECT_EQ(values[0], -2);
  EXPECT_EQ(values[2], -1);
  EXPECT_EQ(values[3], -2);
}

INSTANTIATE_TEST_SUITE_P(Devices, DynamicTest, ::testing::ValuesIn(DeviceCases()), CaseName);

}  // namespace
}  // namespace krafla::testing
