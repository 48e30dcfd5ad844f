// SPDX-License-Identifier: Apache-2.0
// The library from sixteen threads: programs compiled and run, one executable for all, runs that are ended, devices and
// groups of devices opened and closed.
#include <gtest/gtest.h>

#include <chrono>
#include <stop_token>
#include <thread>
#include <vector>

#include "krafla/krafla.hpp"

namespace krafla {
namespace {

using std::chrono_literals::operator""ms;

constexpr int kThreads = 16, kTurns = 8;

// x of 16 x 16 equal numbers v: every element is 16 v^2 + c.
std::string Program(int c) {
  return "HloModule m" + std::to_string(c) + "\nENTRY e {\n x = f32[16,16] parameter(0)\n c = f32[] constant(" +
         std::to_string(c) +
         ")\n b = f32[16,16] broadcast(c), dimensions={}\n"
         " d = f32[16,16] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n ROOT r = f32[16,16] add(d, b)\n}\n";
}
constexpr std::string_view kEndless =
    "HloModule endless\nagain { p = s32[] parameter(0)\n ROOT t = pred[] constant(true) }\n"
    "turn { p = s32[] parameter(0)\n one = s32[] constant(1)\n ROOT n = s32[] add(p, one) }\n"
    "ENTRY e { x = s32[] parameter(0)\n ROOT w = s32[] while(x), condition=again, body=turn }\n";
constexpr std::string_view kTogether =
    "HloModule together, replica_count=4\nadd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b) }\n"
    "ENTRY e { x = f32[8] parameter(0)\n ROOT s = f32[8] all-reduce(x), replica_groups={{0,1,2,3}}, to_apply=add }\n";

Literal Filled(Shape shape, float value) {
  Literal out = Literal::Create(shape).value();
  for (float& v : out.data<float>()) v = value;
  return out;
}

// What went wrong, or nothing.
using Complaint = std::string;

Complaint RunProgram(LocalExecutable& executable, int v, int c) {
  std::vector<Literal> arguments;
  arguments.push_back(Filled(executable.program_shape().parameters[0], static_cast<float>(v)));
  auto result = executable.Run(arguments);
  if (!result) return result.error().ToString();
  for (const float got : result->data<float>())
    if (got != static_cast<float>(16 * v * v + c))
      return "16 * " + std::to_string(v) + "^2 + " + std::to_string(c) + " is " + std::to_string(got);
  return {};
}

Complaint CompileAndRun(LocalClient& client, int v, int c) {
  auto program = LoadHlo(Program(c));
  if (!program) return program.error().ToString();
  auto executable = client.Compile(*program);
  return executable ? RunProgram(*executable, v, c) : executable.error().ToString();
}

Complaint EndRun(LocalExecutable& endless, StatusCode expected, const RunOptions& options) {
  std::vector<Literal> start;
  start.push_back(Literal::Create(endless.program_shape().parameters[0]).value());
  auto result = endless.Run(start, options);
  if (result) return "a run without end ended";
  return result.error().code() == expected ? Complaint() : result.error().ToString();
}

Complaint RunGroup(const std::string& device, int v) {
  auto group = LocalDeviceGroup::Create(device + "*4");
  if (!group) return group.error().ToString();
  auto program = LoadHlo(kTogether);
  if (!program) return program.error().ToString();
  std::vector<std::vector<Literal>> arguments(4);
  for (int d = 0; d < 4; ++d)
    arguments[static_cast<std::size_t>(d)].push_back(
        Filled(ShapeUtil::MakeShape(F32, {8}).value(), static_cast<float>(v + d)));
  auto late = group->Execute(*program, arguments, {}, {.deadline = std::chrono::steady_clock::now()});
  if (late) return "a group ran past its deadline";
  if (late.error().code() != StatusCode::kDeadlineExceeded) return late.error().ToString();
  auto results = group->Execute(*program, arguments);
  if (!results) return results.error().ToString();
  for (const Literal& result : *results)
    for (const float got : result.data<float>())
      if (got != static_cast<float>(4 * v + 6)) return "the sum of four devices is " + std::to_string(got);
  return {};
}

class ManyThreads : public ::testing::TestWithParam<const char*> {};

TEST_P(ManyThreads, CompileRunEndOpenAndClose) {
  const std::string device = GetParam();
  auto client = LocalClient::Create(device);
  if (!client && client.error().code() == StatusCode::kNotFound) GTEST_SKIP() << client.error().ToString();
  ASSERT_TRUE(client) << client.error().ToString();
  auto shared = client->Compile(LoadHlo(Program(100)).value());
  auto endless = client->Compile(LoadHlo(kEndless).value());
  ASSERT_TRUE(shared && endless);
  std::vector<std::string> said(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        const auto turn = [&](int n) -> Complaint {
          switch ((t + n) % 6) {
            case 0: return RunProgram(*shared, t, 100);
            case 1: return CompileAndRun(*client, t, n);
            case 2:
              return EndRun(*endless, StatusCode::kDeadlineExceeded,
                            {.deadline = std::chrono::steady_clock::now() + 2ms});
            case 3: {
              std::stop_source stop;
              const std::jthread other([&] {
                std::this_thread::sleep_for(2ms);
                stop.request_stop();
              });
              return EndRun(*endless, StatusCode::kCancelled, {.stop = stop.get_token()});
            }
            case 4: {
              auto own = LocalClient::Create(device, {.threads = 1 + t % 3, .parallel_for = {}});
              return own ? CompileAndRun(*own, t, n) : own.error().ToString();
            }
            default: return RunGroup(device, t);
          }
        };
        for (int n = 0; n < kTurns && said[static_cast<std::size_t>(t)].empty(); ++n)
          said[static_cast<std::size_t>(t)] = turn(n);
      });
  }
  for (int t = 0; t < kThreads; ++t) EXPECT_EQ(said[static_cast<std::size_t>(t)], "") << "thread " << t;
}

INSTANTIATE_TEST_SUITE_P(Devices, ManyThreads, ::testing::Values("cpu", "vulkan"),
                         [](const auto& device) { return std::string(device.param); });

}  // namespace
}  // namespace krafla
