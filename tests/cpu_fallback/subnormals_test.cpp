// SPDX-License-Identifier: Apache-2.0
// Runs take subnormal numbers for zeros, on every thread, where they do not round up to others.
#include "base/subnormals.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "program_fixture.h"

namespace krafla {
namespace {

using As = Subnormals::As;

#if defined(__x86_64__)
constexpr bool kIsSlow = true;
#else
constexpr bool kIsSlow = false;
#endif

// The product of `count` numbers, of f32, by one.
std::vector<float> Scaled(const std::string& text, std::vector<float> numbers, float by,
                          NativeUse use = NativeUse::kAlways) {
  auto plan = CompileFor(use, text);
  EXPECT_TRUE(plan) << plan.error().ToString();
  if (!plan) return {};
  std::vector<float> out(numbers.size());
  const std::array arguments = {reinterpret_cast<const std::byte*>(numbers.data()),
                                reinterpret_cast<const std::byte*>(&by)};
  const std::array results = {reinterpret_cast<std::byte*>(out.data())};
  EXPECT_TRUE((*plan)->Run(arguments, results));
  return out;
}
std::string ScaledText(const std::string& rest) {
  return "HloModule m\nENTRY main {\n  x = f32[40] parameter(0)\n  y = f32[] parameter(1)\n"
         "  ys = f32[40] broadcast(y), dimensions={}\n  p = f32[40] multiply(x, ys)\n" +
         rest + "}\n";
}

TEST(Subnormals, OfF32AreZerosInARun) {
  if (!kIsSlow) GTEST_SKIP() << "this processor is as fast with them";
  EXPECT_EQ(Subnormals::OfThisThread(), As::kNumbers);
  const std::string text = ScaledText("  ROOT r = f32[40] negate(p)\n");
  for (const float x : Scaled(text, std::vector<float>(40, 1e-30f), 1e-10f)) EXPECT_EQ(x, 0);
  for (const float x : Scaled(text, std::vector<float>(40, 1e-39f), 1e10f)) EXPECT_EQ(x, 0);
  for (const float x : Scaled(text, std::vector<float>(40, 1e-30f), 1e-7f)) EXPECT_EQ(x, -(1e-30f * 1e-7f));
  EXPECT_EQ(Subnormals::OfThisThread(), As::kNumbers);
}

// Conversions to pred go by the bits, and extrema of two subnormal numbers are the right one or a zero.
TEST(Subnormals, AreOneThingOrTheOther) {
  std::vector<float> numbers(40, 1e-39f);
  for (std::size_t i = 0; i < 8; ++i) numbers[i] = i % 2 == 0 ? 0.0f : -0.0f;
  const std::string truth = ScaledText("  t = pred[40] convert(x)\n  ROOT r = f32[40] convert(t)\n");
  const std::vector<float> truths = Scaled(truth, numbers, 0.0f);
  for (std::size_t i = 0; i < truths.size(); ++i) EXPECT_EQ(truths[i], i < 8 ? 0 : 1) << i;
  for (const NativeUse use : {NativeUse::kNever, NativeUse::kAlways}) {
    const auto all = [&](const std::string& op, float right) {
      const std::vector<float> out = Scaled(ScaledText("  ROOT r = f32[40] " + op + "\n"), numbers, 2e-39f, use);
      return std::all_of(out.begin() + 8, out.end(),
                         [&](float x) { return std::bit_cast<uint32_t>(x) == 0 || std::memcmp(&x, &right, 4) == 0; });
    };
    EXPECT_TRUE(all("maximum(x, ys)", 2e-39f));
    EXPECT_TRUE(all("maximum(ys, x)", 2e-39f));
    EXPECT_TRUE(all("minimum(ys, x)", 1e-39f));
    EXPECT_TRUE(all("sign(x)", 1));
  }
}

// A subnormal result that rounds up to bf16's smallest normal number is that.
TEST(Subnormals, OfF32MayRoundUpInBf16) {
  const std::string text = ScaledText("  b = bf16[40] convert(p)\n  ROOT r = f32[40] convert(b)\n");
  for (const float x : Scaled(text, std::vector<float>(40, 0x1.fffp-64f), 0x1p-63f)) EXPECT_EQ(x, 0x1p-126f);
}

TEST(Subnormals, WorkersAreAsTheThreadThatCalls) {
  if (!kIsSlow) GTEST_SKIP() << "this processor is as fast with them";
  ThreadPool pool(4);
  for (const As as : {As::kZeros, As::kNumbers}) {
    const Subnormals here(as);
    std::atomic<int> others = 0;
    pool.ParallelParts(16, 1e9, [&](int64_t begin, int64_t end, int) {
      // As long as a worker takes to wake.
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      for (int64_t i = begin; i < end; ++i) others += Subnormals::OfThisThread() != as;
    });
    EXPECT_EQ(others, 0);
  }
  EXPECT_EQ(Subnormals::OfThisThread(), As::kNumbers);
}

}  // namespace
}  // namespace krafla
