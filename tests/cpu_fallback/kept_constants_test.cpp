// SPDX-License-Identifier: Apache-2.0
// What kernels keep of constants from run to run: the answers are plain sums.
#include "program_fixture.h"

namespace krafla {
namespace {

// A convolution of f32[1,32,12,12] with a kernel f32[64,32,3,3] of small numbers.
std::string Program() {
  std::string values;
  for (int o = 0; o < 64; ++o) {
    values += o > 0 ? ",{" : "{";
    for (int i = 0; i < 32; ++i) {
      values += i > 0 ? ",{" : "{";
      for (int y = 0; y < 3; ++y) {
        values += y > 0 ? ",{" : "{";
        for (int x = 0; x < 3; ++x) values += Format("{}{}", x > 0 ? "," : "", (o * 5 + i * 3 + y * 2 + x) % 7 - 3);
        values += "}";
      }
      values += "}";
    }
    values += "}";
  }
  return "HloModule kept\nENTRY main {\n  x = f32[1,32,12,12] parameter(0)\n  w = f32[64,32,3,3] constant({" + values +
         "})\n  ROOT y = f32[1,64,12,12] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01\n}\n";
}
std::vector<float> Sums() {
  std::vector<float> out;
  const auto input = [](int c, int y, int x) {
    if (y < 0 || y >= 12 || x < 0 || x >= 12) return 0.0F;
    return static_cast<float>((c * 144 + y * 12 + x) % 11 - 5);
  };
  for (int o = 0; o < 64; ++o)
    for (int y = 0; y < 12; ++y)
      for (int x = 0; x < 12; ++x) {
        float sum = 0;
        for (int c = 0; c < 32; ++c)
          for (int v = 0; v < 3; ++v)
            for (int u = 0; u < 3; ++u)
              sum += input(c, y + v - 1, x + u - 1) * static_cast<float>((o * 5 + c * 3 + v * 2 + u) % 7 - 3);
        out.push_back(sum);
      }
  return out;
}
Result<std::vector<float>> RunOf(CpuPlan& plan, const RunLimit& limit = kUnlimited) {
  std::vector<float> input, out(64 * 144);
  for (int i = 0; i < 32 * 144; ++i) input.push_back(static_cast<float>(i % 11 - 5));
  const std::byte* arguments[] = {reinterpret_cast<const std::byte*>(input.data())};
  std::byte* results[] = {reinterpret_cast<std::byte*>(out.data())};
  KRAFLA_TRY(plan.Run(arguments, results, limit));
  return out;
}

TEST(KeptConstants, GiveTheSameAnswersEachRun) {
  auto plan = CompileFor(NativeUse::kNever, Program());
  ASSERT_TRUE(plan) << plan.error().ToString();
  const std::vector<float> want = Sums();
  for (int run = 0; run < 3; ++run) {
    auto got = RunOf(**plan);
    ASSERT_TRUE(got) << got.error().ToString();
    EXPECT_EQ(*got, want);
  }
  auto another = (*plan)->Another({.threads = 1});
  ASSERT_TRUE(another) << another.error().ToString();
  auto got = RunOf(**another);
  ASSERT_TRUE(got) << got.error().ToString();
  EXPECT_EQ(*got, want);
}

TEST(KeptConstants, AreWholeAfterARunThatWasStopped) {
  auto plan = CompileFor(NativeUse::kNever, Program());
  ASSERT_TRUE(plan) << plan.error().ToString();
  const RunLimit passed{.deadline = std::chrono::steady_clock::now()};
  EXPECT_FALSE(RunOf(**plan, passed));
  auto got = RunOf(**plan);
  ASSERT_TRUE(got) << got.error().ToString();
  EXPECT_EQ(*got, Sums());
}

}  // namespace
}  // namespace krafla
