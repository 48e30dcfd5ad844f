// SPDX-License-Identifier: Apache-2.0
// The threads that a program's run takes: krafla's own, as many as were asked for, or those of the application.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <thread>
#include <vector>

#include "krafla/krafla.hpp"

namespace krafla {
namespace {

// Large enough that a product and a convolution are cut into parts.
constexpr std::string_view kProgram = R"(HloModule m
ENTRY main {
  x = f32[256,256] parameter(0)
  image = f32[1,64,64,32] parameter(1)
  window = f32[3,3,32,32] parameter(2)
  product = f32[256,256] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  sums = f32[1,64,64,32] convolution(image, window), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  ROOT t = (f32[256,256], f32[1,64,64,32]) tuple(product, sums)
})";

Literal Filled(Shape shape, float value) {
  Literal out = Literal::Create(shape).value();
  for (float& v : out.data<float>()) v = value;
  return out;
}

void ExpectRightResults(LocalExecutable& executable) {
  const std::vector<Shape>& parameters = executable.program_shape().parameters;
  std::vector<Literal> arguments;
  for (const Shape& s : parameters) arguments.push_back(Filled(s, 0.5f));
  auto result = executable.Run(arguments);
  ASSERT_TRUE(result) << result.error().ToString();
  const std::vector<Literal>& parts = result->elements();
  for (float v : parts[0].data<float>()) ASSERT_EQ(v, 64.0f);
  const auto sums = parts[1].data<float>();
  EXPECT_EQ(sums[0], 32.0f);   // a corner: four of nine positions
  EXPECT_EQ(sums[32], 48.0f);  // an edge
  EXPECT_EQ(sums[(64 * 30 + 30) * 32 + 5], 72.0f);
}

Result<LocalExecutable> CompileWith(const ClientOptions& options) {
  KRAFLA_ASSIGN(XlaComputation program, LoadHlo(kProgram));
  KRAFLA_ASSIGN(LocalClient client, LocalClient::Create("cpu", options));
  return client.Compile(program);
}

#ifdef __linux__
int ThreadsOfThisProcess() {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

// A thread that was joined stays in /proc for a moment: join() returns when the kernel clears its id, before it is
// gone.
int ThreadsOnceThereAre(int expected) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (ThreadsOfThisProcess() != expected && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return ThreadsOfThisProcess();
}

// 0: every program had the threads that it was given, and no more. Else what to print.
int CountThreads() {
  // The shared pool stays.
  auto warm = CompileWith({});
  if (!warm) return std::puts(warm.error().ToString().c_str());
  ExpectRightResults(*warm);
  for (const int threads : {1, 2, 5}) {
    const int before = ThreadsOfThisProcess();
    {
      auto executable = CompileWith({.threads = threads, .parallel_for = {}});
      if (!executable) return std::puts(executable.error().ToString().c_str());
      for (int i = 0; i < 3; ++i) ExpectRightResults(*executable);
      const int with = ThreadsOnceThereAre(before + threads - 1);
      if (with != before + threads - 1) return std::printf("%d threads: %d, then %d\n", threads, before, with);
    }
    const int after = ThreadsOnceThereAre(before);
    if (after != before) return std::printf("%d threads: %d, and %d remain\n", threads, before, after);
  }
  return ::testing::Test::HasFailure() ? std::puts("wrong results") : 0;
}

// In a process of its own: drivers that other tests have woken start and end threads as they like.
TEST(ThreadsTest, NoMoreThreadsThanAskedFor) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::exit(CountThreads()), ::testing::ExitedWithCode(0), "");
}
#endif

TEST(ThreadsTest, OnThreadsOfTheApplication) {
  std::atomic<int> calls{0}, tasks_run{0};
  ClientOptions options;
  options.threads = 3;
  options.parallel_for = [&](int tasks, const std::function<void(int)>& run) {
    ++calls;
    EXPECT_LE(tasks, 3);
    std::vector<std::thread> threads;
    for (int t = 0; t < tasks; ++t)
      threads.emplace_back([&, t] {
        run(t);
        ++tasks_run;
      });
    for (std::thread& t : threads) t.join();
  };
  auto executable = CompileWith(options);
  ASSERT_TRUE(executable) << executable.error().ToString();
  ExpectRightResults(*executable);
  EXPECT_GE(calls.load(), 2);
  EXPECT_GE(tasks_run.load(), 2 * calls.load());
}

TEST(ThreadsTest, CountsThatMakeNoSense) {
  for (int threads : {-1, 100000}) {
    auto client = LocalClient::Create("cpu", {.threads = threads, .parallel_for = {}});
    ASSERT_FALSE(client);
    EXPECT_NE(client.error().message().find("ClientOptions::threads"), std::string::npos);
    EXPECT_FALSE(LocalDeviceGroup::Create("cpu*2", {.threads = threads, .parallel_for = {}}));
  }
}

}  // namespace
}  // namespace krafla
