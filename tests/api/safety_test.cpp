// SPDX-License-Identifier: Apache-2.0
// What no input and no use may do: write where it has no room, wait for ever, give wrong results because two threads
// ran one program, or leave an executable that does not run any more.
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "api/group/device_group.h"
#include "api/host/host_transfers.h"
#include "api_fixture.h"
#include "base/run_limit.h"
#include "krafla/custom_call.h"
#include "krafla/krafla.hpp"

namespace krafla::testing {
namespace {

using namespace std::chrono_literals;

class SafetyTest : public DeviceTest {};
INSTANTIATE_TEST_SUITE_P(Devices, SafetyTest, ::testing::ValuesIn(DeviceCases()), CaseName);

constexpr std::string_view kScatter = R"(HloModule m
add { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[65536] parameter(0)
  ROOT r = f32[16384] reduce-scatter(x), dimensions={0}, replica_groups={{0,1,2,3}}, to_apply=add
})";

TEST_P(SafetyTest, DevicesThatAreNotThereAreNotServed) {
  auto refused = CompileText(*client_, kScatter, options_);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.error().ToString().find("replica 1, the module has 1"), std::string::npos)
      << refused.error().ToString();
  // A client is one device, whatever the header says.
  auto module = ParseHloText(kScatter);
  ASSERT_TRUE(module.has_value());
  (*module)->replica_count = 4;
  auto clone = (*module)->Clone();
  auto alone = client_->Compile(std::move(*module), options_);
  ASSERT_FALSE(alone.has_value());
  EXPECT_NE(alone.error().message().find("4 replicas"), std::string::npos) << alone.error().ToString();
  // A group of as many serves it; one that is too small does not.
  auto again = clone->Clone();
  EXPECT_TRUE(DeviceGroup(std::vector(4, client_)).Compile(std::move(clone), options_).has_value());
  EXPECT_FALSE(DeviceGroup(std::vector(2, client_)).Compile(std::move(again), options_).has_value());
}

TEST(SafetyApiTest, TheLocalClientLooksAtTheHeader) {
  auto client = LocalClient::Create("cpu");
  ASSERT_TRUE(client.has_value());
  std::string text(kScatter);
  text.replace(0, std::string_view("HloModule m").size(), "HloModule m, replica_count=4");
  auto program = LoadHlo(text);
  ASSERT_TRUE(program.has_value()) << program.error().ToString();
  EXPECT_EQ(client->Compile(*program).error().code(), StatusCode::kInvalidArgument);
  program = LoadHlo(kScatter);
  ASSERT_TRUE(program.has_value());
  EXPECT_EQ(client->Compile(*program).error().code(), StatusCode::kInvalidArgument);
}

// Without the pass that makes them constants they are read from the device's own memory.
TEST_P(SafetyTest, IdsOfOneDeviceAreZero) {
  options_.disabled.insert("collective_simplifier");
  auto executable = Compile(R"(HloModule m
ENTRY e {
  p = u32[] partition-id()
  r = u32[] replica-id()
  s = u32[] add(p, p)
  ROOT t = (u32[], u32[], u32[]) tuple(p, r, s)
})");
  ASSERT_NE(executable, nullptr);
  for (int run = 0; run < 2; ++run)
    for (const Literal& id : Run(*executable, {})) EXPECT_EQ(Values<uint32_t>(id), std::vector<uint32_t>{0});
}

// A function that puts something else in the place of its result has failed, and nothing is written.
TEST_P(SafetyTest, HostFunctionsCannotChangeTheShapeOfTheirResult) {
  CustomCallRegistry registry;
  options_.custom_calls = &registry;
  ASSERT_TRUE(registry.AddFunction("test.swap", [](const CustomCallFrame& frame) -> Result<> {
    *frame.result = MakeLiteral<float>("f32[100000]", std::vector<float>(100000, 1.0f));
    return {};
  }));
  ASSERT_TRUE(registry.AddFunction("test.swap_inside", [](const CustomCallFrame& frame) -> Result<> {
    frame.result->elements()[1] = MakeLiteral<float>("f32[100000]", std::vector<float>(100000, 1.0f));
    return {};
  }));
  for (std::string_view call : {"ROOT r = f32[4] custom-call(x), custom_call_target=\"test.swap\"",
                                "ROOT r = (f32[4], f32[4]) custom-call(x), custom_call_target=\"test.swap_inside\""}) {
    auto executable = Compile(Format("HloModule m\nENTRY e {{\n x = f32[4] parameter(0)\n {}\n}}", call));
    ASSERT_NE(executable, nullptr);
    const std::vector<Literal> arguments = [] {
      std::vector<Literal> out;
      out.push_back(MakeLiteral<float>("f32[4]", {1, 2, 3, 4}));
      return out;
    }();
    auto out = executable->Run(Pointers(arguments));
    ASSERT_FALSE(out.has_value());
    EXPECT_EQ(out.error().code(), StatusCode::kInternal) << out.error().ToString();
  }
}

TEST(SafetyApiTest, LiteralsOfAnotherTypeAreEmpty) {
  const Literal f32 = MakeLiteral<float>("f32[2]", {1, 2});
  EXPECT_EQ(f32.data<float>().size(), 2u);
  EXPECT_TRUE(f32.data<int64_t>().empty());
  EXPECT_TRUE(f32.data<char>().empty());
  EXPECT_TRUE(Literal().data<float>().empty());
  EXPECT_TRUE(Literal::Create(Shape::MakeToken())->data<float>().empty());
}

TEST(SafetyApiTest, FilesThatAreNoPrograms) {
  const std::string folder = ::testing::TempDir() + "/krafla-safety-" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  const std::string pipe = folder + "/pipe", sparse = folder + "/sparse";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::ofstream(sparse) << "HloModule m";
  std::filesystem::resize_file(sparse, uintmax_t{1} << 42);
  for (const std::string& path : {folder, std::string("/dev/zero"), std::string("/dev/null"),
                                  std::string("/proc/self/mem"), pipe, sparse, folder + "/absent", std::string("")}) {
    auto program = LoadHloFile(path);
    ASSERT_FALSE(program.has_value()) << path;
    EXPECT_NE(program.error().message().find("'" + path + "'"), std::string::npos) << program.error().ToString();
  }
  // A pipe that somebody writes to is as good as a file.
  std::thread writer([&] { std::ofstream(pipe) << "HloModule m\nENTRY e {\n  ROOT x = f32[] parameter(0)\n}\n"; });
  auto program = LoadHloFile(pipe);
  writer.join();
  EXPECT_TRUE(program.has_value()) << program.error().ToString();
  std::filesystem::remove_all(folder);
}

// Sixteen threads, each with arguments of its own.
TEST_P(SafetyTest, OneExecutableRunsForManyThreads) {
  auto executable = Compile(R"(HloModule m
ENTRY e {
  x = f32[256,256] parameter(0)
  y = f32[256,256] parameter(1)
  d = f32[256,256] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[256,256] add(d, x)
})");
  ASSERT_NE(executable, nullptr);
  std::atomic<int> wrong = 0, failed = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 16; ++t)
    threads.emplace_back([&, t] {
      const auto value = static_cast<float>(t + 1);
      std::vector<Literal> arguments;
      arguments.push_back(MakeLiteral<float>("f32[256,256]", std::vector<float>(65536, value)));
      arguments.push_back(MakeLiteral<float>("f32[256,256]", std::vector<float>(65536, 2)));
      for (int run = 0; run < 4; ++run) {
        auto out = executable->Run(Pointers(arguments));
        if (!out) ++failed;
        else
          for (float v : (*out)[0].data<float>()) wrong += v != value * 512 + value;
      }
    });
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(failed, 0);
}

// Turns as often as its argument says; never for -1.
constexpr std::string_view kLoop = R"(HloModule m
c { p = (s32[], s32[]) parameter(0)
 i = s32[] get-tuple-element(p), index=0
 n = s32[] get-tuple-element(p), index=1
 ROOT r = pred[] compare(i, n), direction=NE }
b { p = (s32[], s32[]) parameter(0)
 i = s32[] get-tuple-element(p), index=0
 n = s32[] get-tuple-element(p), index=1
 one = s32[] constant(1)
 j = s32[] add(i, one)
 ROOT r = (s32[], s32[]) tuple(j, n) }
ENTRY e { n = s32[] parameter(0)
 z = s32[] constant(0)
 t = (s32[], s32[]) tuple(z, n)
 w = (s32[], s32[]) while(t), condition=c, body=b
 ROOT r = s32[] get-tuple-element(w), index=0 })";
// The same with a number of turns that the compiler knows.
constexpr std::string_view kCountedLoop = R"(HloModule m
c { p = (s64[], s32[]) parameter(0)
 i = s64[] get-tuple-element(p), index=0
 n = s64[] constant(1000000000000)
 ROOT r = pred[] compare(i, n), direction=LT }
b { p = (s64[], s32[]) parameter(0)
 i = s64[] get-tuple-element(p), index=0
 x = s32[] get-tuple-element(p), index=1
 one = s64[] constant(1)
 j = s64[] add(i, one)
 y = s32[] multiply(x, x)
 ROOT r = (s64[], s32[]) tuple(j, y) }
ENTRY e { n = s32[] parameter(0)
 z = s64[] constant(0)
 t = (s64[], s32[]) tuple(z, n)
 w = (s64[], s32[]) while(t), condition=c, body=b
 ROOT r = s32[] get-tuple-element(w), index=1 })";

TEST_P(SafetyTest, RunsEndByDeadlineAndByRequest) {
  const auto run = [&](Executable& executable, int32_t turns, const RunLimit& limit) {
    std::vector<Literal> arguments;
    arguments.push_back(MakeLiteral<int32_t>("s32[]", {turns}));
    return executable.Run(Pointers(arguments), limit);
  };
  for (std::string_view text : {kLoop, kCountedLoop}) {
    auto executable = Compile(text);
    ASSERT_NE(executable, nullptr);
    auto late = run(*executable, -1, {.deadline = RunLimit::Clock::now() + 20ms});
    ASSERT_FALSE(late.has_value());
    EXPECT_EQ(late.error().code(), StatusCode::kDeadlineExceeded) << late.error().ToString();
    std::stop_source stop;
    std::jthread other([&] {
      std::this_thread::sleep_for(20ms);
      stop.request_stop();
    });
    auto stopped = run(*executable, -1, {.stop = stop.get_token()});
    ASSERT_FALSE(stopped.has_value());
    EXPECT_EQ(stopped.error().code(), StatusCode::kCancelled) << stopped.error().ToString();
    EXPECT_FALSE(executable->Results().has_value());
    if (text == kCountedLoop) continue;
    auto fine = run(*executable, 3, kUnlimited);
    ASSERT_TRUE(fine.has_value()) << fine.error().ToString();
    EXPECT_EQ(Values<int32_t>((*fine)[0]), std::vector<int32_t>{3});
  }
}

// One kernel that would take some ten seconds.
TEST_P(SafetyTest, LongKernelsEndByDeadline) {
  if (options_.disabled.contains("fusion"))
    GTEST_SKIP() << "Without fusion the intermediate values are larger than a buffer may be.";
  std::string text =
      "HloModule m\nadd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b) }\n"
      "ENTRY e { x = f32[20000] parameter(0)\n"
      "h0 = f32[20000,20000] broadcast(x), dimensions={0}\n v = f32[20000,20000] broadcast(x), dimensions={1}\n"
      "t0 = f32[20000,20000] multiply(h0, v)\n";
  for (int i = 0; i < 40; ++i) text += Format("t{} = f32[20000,20000] tanh(t{})\n", i + 1, i);
  text += "z = f32[] constant(0)\n ROOT r = f32[] reduce(t40, z), dimensions={0,1}, to_apply=add }";
  auto executable = Compile(text);
  ASSERT_NE(executable, nullptr);
  std::vector<Literal> arguments;
  arguments.push_back(MakeLiteral<float>("f32[20000]", std::vector<float>(20000, 0.5f)));
  auto late = executable->Run(Pointers(arguments), {.deadline = RunLimit::Clock::now() + 20ms});
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code(), StatusCode::kDeadlineExceeded) << late.error().ToString();
}

// A step that the evaluator takes, of 2^40 taps on places between elements: days.
TEST_P(SafetyTest, EvaluatedStepsEndByDeadline) {
  auto executable = Compile(
      "HloModule m\nadd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n c = f32[] parameter(2)\n"
      "d = f32[] parameter(3)\n e = f32[] add(a, c)\n f = f32[] add(b, d)\n ROOT r = (f32[], f32[]) tuple(e, f) }\n"
      "ENTRY e { x = f32[1025] parameter(0)\n z = f32[] constant(0)\n"
      "w = (f32[1], f32[1]) reduce-window(x, x, z, z), window={size=1099511627777 lhs_dilate=1073741824}, to_apply=add\n"
      "ROOT r = f32[1] get-tuple-element(w), index=0 }");
  ASSERT_NE(executable, nullptr);
  std::vector<Literal> arguments;
  arguments.push_back(MakeLiteral<float>("f32[1025]", std::vector<float>(1025, 1)));
  auto late = executable->Run(Pointers(arguments), {.deadline = RunLimit::Clock::now() + 20ms});
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code(), StatusCode::kDeadlineExceeded) << late.error().ToString();
  std::stop_source stop;
  std::jthread later([&] {
    std::this_thread::sleep_for(20ms);
    stop.request_stop();
  });
  auto stopped = executable->Run(Pointers(arguments), {.stop = stop.get_token()});
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().code(), StatusCode::kCancelled) << stopped.error().ToString();
}

// While another thread runs the same executable, and does not end.
TEST_P(SafetyTest, WaitsForOtherRunsEnd) {
  auto executable = Compile(R"(HloModule m
again { p = s32[] parameter(0)
 ROOT t = pred[] constant(true) }
turn { p = s32[] parameter(0)
 one = s32[] constant(1)
 ROOT next = s32[] add(p, one) }
ENTRY e { x = s32[] parameter(0)
 ROOT w = s32[] while(x), condition=again, body=turn })");
  ASSERT_NE(executable, nullptr);
  std::vector<Literal> arguments;
  arguments.push_back(MakeLiteral<int32_t>("s32[]", {0}));
  std::stop_source stop, other;
  StatusCode first = StatusCode::kInternal;
  std::jthread long_run([&] {
    if (auto done = executable->Run(Pointers(arguments), {.stop = stop.get_token()}); !done)
      first = done.error().code();
  });
  std::this_thread::sleep_for(20ms);
  auto late = executable->Run(Pointers(arguments), {.deadline = RunLimit::Clock::now() + 20ms});
  std::jthread later([&] {
    std::this_thread::sleep_for(20ms);
    other.request_stop();
  });
  auto stopped = executable->Run(Pointers(arguments), {.stop = other.get_token()});
  stop.request_stop();
  long_run.join();
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code(), StatusCode::kDeadlineExceeded) << late.error().ToString();
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().code(), StatusCode::kCancelled) << stopped.error().ToString();
  EXPECT_EQ(first, StatusCode::kCancelled);
}

TEST_P(SafetyTest, WaitsForTheHostEnd) {
  options_.transfers = std::make_shared<HostTransfers>();
  auto executable = Compile(R"(HloModule m
ENTRY e { t = token[] after-all()
 i = (f32[4], token[]) infeed(t)
 ROOT r = f32[4] get-tuple-element(i), index=0 })");
  ASSERT_NE(executable, nullptr);
  auto late = executable->Run({}, {.deadline = RunLimit::Clock::now() + 20ms});
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code(), StatusCode::kDeadlineExceeded) << late.error().ToString();
  std::stop_source stop;
  std::jthread other([&] { stop.request_stop(); });
  EXPECT_EQ(executable->Run({}, {.stop = stop.get_token()}).error().code(), StatusCode::kCancelled);
  HostTransfers::Item item;
  item.push_back(MakeLiteral<float>("f32[4]", {1, 2, 3, 4}));
  options_.transfers->PushInfeed(std::move(item));
  auto out = Run(*executable, {});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(Values<float>(out[0]), (std::vector<float>{1, 2, 3, 4}));

  // Where nobody is at the other end it is said at once.
  options_.transfers = HostTransfers::WithoutHost();
  executable = Compile(R"(HloModule m
ENTRY e { t = token[] after-all()
 x = f32[4] parameter(0)
 o = token[] outfeed(x, t)
 i = (f32[4], token[]) infeed(o)
 ROOT r = f32[4] get-tuple-element(i), index=0 })");
  ASSERT_NE(executable, nullptr);
  std::vector<Literal> arguments;
  arguments.push_back(MakeLiteral<float>("f32[4]", {1, 2, 3, 4}));
  EXPECT_EQ(executable->Run(Pointers(arguments)).error().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(options_.transfers->waiting(), 0);
}

TEST(SafetyApiTest, GroupsEnd) {
  auto group = LocalDeviceGroup::Create("cpu*2", {.wait_limit = 5s});
  ASSERT_TRUE(group.has_value());
  std::string text(kLoop);
  text.replace(0, std::string_view("HloModule m").size(), "HloModule m, replica_count=2");
  auto program = LoadHlo(text);
  ASSERT_TRUE(program.has_value()) << program.error().ToString();
  std::vector<std::vector<Literal>> arguments(2);
  for (auto& a : arguments) a.push_back(*LiteralUtil::CreateR0<int32_t>(-1));
  auto late = group->Execute(*program, arguments, {}, {.deadline = std::chrono::steady_clock::now() + 20ms});
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code(), StatusCode::kDeadlineExceeded) << late.error().ToString();
}

TEST(SafetyApiTest, PublicRunsEnd) {
  auto client = LocalClient::Create("cpu", {.wait_limit = 5s});
  ASSERT_TRUE(client.has_value());
  auto program = LoadHlo(kLoop);
  ASSERT_TRUE(program.has_value());
  auto executable = client->Compile(*program);
  ASSERT_TRUE(executable.has_value()) << executable.error().ToString();
  auto forever = LiteralUtil::CreateR0<int32_t>(-1), three = LiteralUtil::CreateR0<int32_t>(3);
  auto late = executable->Run({*forever}, {.deadline = std::chrono::steady_clock::now() + 10ms});
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code(), StatusCode::kDeadlineExceeded);
  auto fine = executable->Run({*three});
  ASSERT_TRUE(fine.has_value());
  EXPECT_EQ(Values<int32_t>(*fine), std::vector<int32_t>{3});
}

}  // namespace
}  // namespace krafla::testing
