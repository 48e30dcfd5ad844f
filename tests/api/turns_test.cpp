// SPDX-License-Identifier: Apache-2.0
// Loops that depend on their data, whose turns a device goes through by itself where it can: the same as with the host
// asking after each.
#include <chrono>
#include <cmath>

#include "api_fixture.h"

namespace krafla::testing {
namespace {

// x is multiplied by w until its greatest magnitude is at most 1e-3: with w = scale * I, x shrinks by `scale` a turn.
// `count` counts turns; `flags` are three bytes, moved in each turn. Larger than what becomes one kernel.
constexpr std::string_view kShrink = R"(HloModule shrink
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }
body {
  p = (s32[], f32[128,128], f32[128,128], u8[3]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[128,128] get-tuple-element(p), index=1
  w = f32[128,128] get-tuple-element(p), index=2
  f = u8[3] get-tuple-element(p), index=3
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[128,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g = u8[3] reverse(f), dimensions={0}
  ROOT o = (s32[], f32[128,128], f32[128,128], u8[3]) tuple(j, y, w, g)
}
cond {
  p = (s32[], f32[128,128], f32[128,128], u8[3]) parameter(0)
  x = f32[128,128] get-tuple-element(p), index=1
  m = f32[128,128] abs(x)
  z = f32[] constant(0)
  greatest = f32[] reduce(m, z), dimensions={0,1}, to_apply=max
  end = f32[] constant(0.001)
  ROOT r = pred[] compare(greatest, end), direction=GT
}
ENTRY e {
  x = f32[128,128] parameter(0)
  w = f32[128,128] parameter(1)
  f = u8[3] parameter(2)
  zero = s32[] constant(0)
  t = (s32[], f32[128,128], f32[128,128], u8[3]) tuple(zero, x, w, f)
  l = (s32[], f32[128,128], f32[128,128], u8[3]) while(t), condition=cond, body=body
  i = s32[] get-tuple-element(l), index=0
  y = f32[128,128] get-tuple-element(l), index=1
  g = u8[3] get-tuple-element(l), index=3
  ROOT o = (s32[], f32[128,128], u8[3]) tuple(i, y, g)
})";

class TurnsTest : public DeviceTest {
 protected:
  static std::vector<Literal> Arguments(float start, float scale) {
    std::vector<float> x(128 * 128, start), w(128 * 128, 0.0f);
    for (std::size_t i = 0; i < 128; ++i) w[i * 129] = scale;
    std::vector<Literal> out;
    out.push_back(MakeLiteral<float>("f32[128,128]", x));
    out.push_back(MakeLiteral<float>("f32[128,128]", w));
    out.push_back(MakeLiteral<uint8_t>("u8[3]", {1, 2, 3}));
    return out;
  }
  // The turns until `start` is at most 1e-3.
  static int32_t TurnsOf(float start, float scale) {
    int32_t out = 0;
    for (; std::abs(start) > 0.001f; start *= scale) ++out;
    return out;
  }
  void Expect(const std::vector<Literal>& results, float start, float scale) {
    const int32_t turns = TurnsOf(start, scale);
    ASSERT_EQ(results.size(), 3u);
    EXPECT_EQ(Values<int32_t>(results[0]), std::vector<int32_t>{turns});
    float x = start;
    for (int32_t t = 0; t < turns; ++t) x *= scale;
    EXPECT_EQ(Values<float>(results[1]), std::vector<float>(128 * 128, x));
    EXPECT_EQ(Values<uint8_t>(results[2]),
              turns % 2 == 0 ? (std::vector<uint8_t>{1, 2, 3}) : (std::vector<uint8_t>{3, 2, 1}));
  }
  bool GoesAhead() const {
    return client_->device().profile && client_->device().profile->features.conditional_rendering;
  }
};

// From none to more than a few submissions of turns, with one executable.
TEST_P(TurnsTest, EndWhereTheDataSays) {
  auto executable = Compile(kShrink);
  ASSERT_NE(executable, nullptr);
  EXPECT_EQ(executable->report().loops_ahead, GoesAhead() ? 1 : 0);
  for (const auto& [start, scale] : {std::pair{1.0f, 0.5f}, {0.0005f, 0.5f}, {0.0015f, 0.5f}, {1.0f, 0.96875f}}) {
    SCOPED_TRACE(start);
    Expect(Run(*executable, Arguments(start, scale)), start, scale);
  }
}

TEST_P(TurnsTest, SwitchedOff) {
  if (!GoesAhead()) GTEST_SKIP() << "the device has no conditional rendering";
  options_.disabled.insert("conditional");
  auto executable = Compile(kShrink);
  ASSERT_NE(executable, nullptr);
  EXPECT_EQ(executable->report().loops_ahead, 0);
  Expect(Run(*executable, Arguments(1.0f, 0.5f)), 1.0f, 0.5f);
}

// A loop without an end ends by its deadline, and the next run is a new one.
TEST_P(TurnsTest, EndByDeadline) {
  auto executable = Compile(kShrink);
  ASSERT_NE(executable, nullptr);
  RunLimit limit;
  limit.deadline = RunLimit::Clock::now() + std::chrono::milliseconds(100);
  const std::vector<Literal> endless = Arguments(1.0f, 1.0f);
  auto ended = executable->Run(Pointers(endless), limit);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code(), StatusCode::kDeadlineExceeded) << ended.error().ToString();
  Expect(Run(*executable, Arguments(1.0f, 0.5f)), 1.0f, 0.5f);
}

// Runs that are not waited for.
TEST_P(TurnsTest, RunsBehindEachOther) {
  auto executable = Compile(kShrink);
  ASSERT_NE(executable, nullptr);
  std::vector<DeviceBuffers> results;
  const float starts[] = {1.0f, 0.0001f, 8.0f, 0.01f};
  for (const float start : starts) {
    std::vector<DeviceArgument> arguments;
    for (Literal& a : Arguments(start, 0.5f))
      arguments.push_back({std::make_shared<HostBuffer>(std::make_shared<const Literal>(std::move(a))), false});
    auto run = executable->RunOnBuffers(std::move(arguments));
    ASSERT_TRUE(run) << run.error().ToString();
    results.push_back(std::move(*run));
  }
  for (std::size_t r = 0; r < results.size(); ++r) {
    std::vector<Literal> literals;
    for (const auto& buffer : results[r]) {
      auto literal = buffer->ToLiteral();
      ASSERT_TRUE(literal);
      literals.push_back(**literal);
    }
    Expect(literals, starts[r], 0.5f);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, TurnsTest, ::testing::ValuesIn(DeviceCases()), CaseName);

}  // namespace
}  // namespace krafla::testing
