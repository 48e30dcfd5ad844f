// SPDX-License-Identifier: Apache-2.0
// Client, Compile, Executable as a caller meets them: selectors, errors, arguments, repeated runs.
#include "api_fixture.h"

#include "evaluator/evaluator.h"
#ifdef KRAFLA_HAVE_VULKAN
#include "api/vulkan/emitted_kernels.h"
#endif

namespace krafla::testing {
namespace {

constexpr std::string_view kAdd = R"(HloModule add
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  ROOT r = f32[4] add(x, y)
})";

TEST(ClientTest, Selectors) {
  auto cpu = Client::Create("cpu");
  ASSERT_TRUE(cpu.has_value());
  EXPECT_TRUE((*cpu)->device().runs_on_host_threads);
  EXPECT_EQ((*cpu)->device().selector, "cpu");
  // Some device is always there.
  auto best = Client::Create("");
  ASSERT_TRUE(best.has_value()) << best.error().ToString();

  for (std::string_view bad : {"toaster", "CPU", "cpu:x", "vulkanx", " cpu", "gpu"}) {
    auto client = Client::Create(bad);
    ASSERT_FALSE(client.has_value()) << bad;
    EXPECT_EQ(client.error().code(), StatusCode::kInvalidArgument) << bad;
    EXPECT_NE(client.error().message().find(bad), std::string::npos) << client.error().ToString();
  }
  auto none = Client::Create("vulkan:97");
  ASSERT_FALSE(none.has_value());
  EXPECT_TRUE(none.error().code() == StatusCode::kNotFound || none.error().code() == StatusCode::kUnavailable)
      << none.error().ToString();
}

TEST(ClientTest, ListedDevicesCanBeMade) {
  std::string why;
  auto listed = ListDevices(&why);
  ASSERT_TRUE(listed) << listed.error().ToString();
  const std::vector<DeviceDescription>& devices = *listed;
  ASSERT_FALSE(devices.empty());
  EXPECT_TRUE(devices.back().runs_on_host_threads);
  EXPECT_EQ(why.empty(), devices.size() > 1);
  for (const DeviceDescription& d : devices) {
    auto client = Client::Create(d.selector);
    ASSERT_TRUE(client.has_value()) << d.selector << ": " << client.error().ToString();
    EXPECT_EQ((*client)->device().runs_on_host_threads, d.runs_on_host_threads);
    EXPECT_EQ((*client)->device().description, d.description);
  }
  if (devices.size() > 1) {
    EXPECT_EQ(Client::Create("vulkan:type=toaster").error().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(Client::Create("vulkan:").error().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(Client::Create("vulkan:99999999999999999999").error().code(), StatusCode::kNotFound);
    auto by_uuid = Client::Create("vulkan:uuid=" + devices[0].profile->device_uuid);
    EXPECT_TRUE(by_uuid.has_value()) << by_uuid.error().ToString();
  }
}

TEST_P(DeviceTest, ModulesThatDoNotVerifyAreErrors) {
  auto wrong_shape = CompileText(*client_, R"(HloModule m
ENTRY main {
  x = f32[2] parameter(0)
  y = f32[3] parameter(1)
  ROOT sum = f32[2] add(x, y)
})",
                                 options_);
  ASSERT_FALSE(wrong_shape.has_value());
  EXPECT_EQ(wrong_shape.error().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(wrong_shape.error().ToString().find("sum"), std::string::npos) << wrong_shape.error().ToString();

  auto wrong_type = CompileText(*client_, R"(HloModule m
ENTRY main {
  x = s32[2] parameter(0)
  ROOT r = s32[2] tanh(x)
})",
                                options_);
  ASSERT_FALSE(wrong_type.has_value());
  EXPECT_EQ(wrong_type.error().code(), StatusCode::kInvalidArgument);
}

TEST_P(DeviceTest, UnknownCustomCallIsAnErrorThatNamesIt) {
  auto executable = CompileText(*client_, R"(HloModule m
ENTRY main {
  x = f32[2] parameter(0)
  ROOT r = f32[2] custom-call(x), custom_call_target="nobody_has_this"
})",
                                options_);
  Result<std::vector<Literal>> got = Unimplemented("not compiled");
  if (executable) {
    const Literal x = MakeLiteral<float>("f32[2]", {1, 2});
    got = (*executable)->Run(std::vector<const Literal*>{&x});
  } else {
    got = Failure(std::move(executable).error());
  }
  ASSERT_FALSE(got.has_value());
  EXPECT_TRUE(got.error().code() == StatusCode::kUnimplemented || got.error().code() == StatusCode::kNotFound);
  EXPECT_NE(got.error().ToString().find("nobody_has_this"), std::string::npos) << got.error().ToString();
}

TEST_P(DeviceTest, WrongArgumentsAreErrorsAndChangeNothing) {
  auto executable = Compile(kAdd);
  ASSERT_NE(executable, nullptr);
  ASSERT_EQ(executable->arguments().size(), 2u);
  ASSERT_EQ(executable->results().size(), 1u);
  EXPECT_FALSE(executable->Execute().has_value()) << "ran without arguments";

  const Literal four = MakeLiteral<float>("f32[4]", {1, 2, 3, 4});
  const Literal five = MakeLiteral<float>("f32[5]", {1, 2, 3, 4, 5});
  const Literal square = MakeLiteral<float>("f32[2,2]", {1, 2, 3, 4});
  const Literal whole = MakeLiteral<int32_t>("s32[4]", {1, 2, 3, 4});
  auto expect_refused = [&](const std::vector<Literal>& arguments) {
    auto got = executable->SetArguments(Pointers(arguments));
    ASSERT_FALSE(got.has_value());
    EXPECT_EQ(got.error().code(), StatusCode::kInvalidArgument) << got.error().ToString();
  };
  expect_refused({});
  expect_refused({four});
  expect_refused({four, four, four});
  expect_refused({four, five});
  expect_refused({square, four});
  expect_refused({four, whole});

  auto got = Run(*executable, {four, four});
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(Values<float>(got[0]), (std::vector<float>{2, 4, 6, 8}));
  expect_refused({four, five});
  ASSERT_TRUE(executable->Execute().has_value());
  auto again = executable->Results();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(Values<float>((*again)[0]), (std::vector<float>{2, 4, 6, 8}));
}

// An argument in another layout is the same value.
TEST_P(DeviceTest, LayoutsOfArgumentsDoNotMatter) {
  auto executable = Compile(
      "HloModule m\nENTRY main {\n  x = f32[2,3]{0,1} parameter(0)\n"
      "  ROOT r = f32[3,2]{1,0} transpose(x), dimensions={1,0}\n}\n");
  ASSERT_NE(executable, nullptr);
  for (std::string_view shape : {"f32[2,3]{1,0}", "f32[2,3]{0,1}"}) {
    auto got = Run(*executable, {MakeLiteral<float>(shape, {1, 2, 3, 4, 5, 6})});
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(Values<float>(got[0]), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  }
}

TEST_P(DeviceTest, RunsAgainWithTheSameBitsAndWithOtherArguments) {
  auto executable = Compile(R"(HloModule m
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY main {
  x = f32[8,1000] parameter(0)
  ninf = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[8] reduce(x, ninf), dimensions={1}, to_apply=max
  mb = f32[8,1000] broadcast(m), dimensions={0}
  d = f32[8,1000] subtract(x, mb)
  e = f32[8,1000] exponential(d)
  s = f32[8] reduce(e, zero), dimensions={1}, to_apply=add
  sb = f32[8,1000] broadcast(s), dimensions={0}
  ROOT r = f32[8,1000] divide(e, sb)
})");
  ASSERT_NE(executable, nullptr);
  std::vector<float> values(8000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 7919) % 1013) * 0.01f;
  const Literal x = MakeLiteral("f32[8,1000]", values);
  const Literal flat = MakeLiteral("f32[8,1000]", std::vector<float>(8000, 3.0f));
  auto first = Run(*executable, {x});
  ASSERT_EQ(first.size(), 1u);
  double sum = 0;
  for (float v : first[0].data<float>().first(1000)) sum += v;
  EXPECT_NEAR(sum, 1, 1e-4);

  ASSERT_TRUE(executable->Execute().has_value());
  auto second = executable->Results();
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ((*second)[0], first[0]);

  auto other = Run(*executable, {flat});
  ASSERT_EQ(other.size(), 1u);
  EXPECT_NE(other[0], first[0]);
  EXPECT_NEAR(other[0].data<float>()[77], 1e-3, 1e-8);
  auto third = Run(*executable, {x});
  ASSERT_EQ(third.size(), 1u);
  EXPECT_EQ(third[0], first[0]);
}

TEST_P(DeviceTest, ExecutablesOfOneClientDoNotDisturbEachOther) {
  auto a = Compile(kAdd);
  auto b = Compile(
      "HloModule m\nENTRY main {\n  x = f32[4] parameter(0)\n  c = f32[4] constant({1, 10, 100, 1000})\n"
      "  ROOT r = f32[4] multiply(x, c)\n}\n");
  ASSERT_NE(a, nullptr);
  ASSERT_NE(b, nullptr);
  const Literal x = MakeLiteral<float>("f32[4]", {1, 2, 3, 4}), y = MakeLiteral<float>("f32[4]", {5, 6, 7, 8});
  ASSERT_TRUE(a->SetArguments(std::vector<const Literal*>{&x, &y}).has_value());
  ASSERT_TRUE(b->SetArguments(std::vector<const Literal*>{&y}).has_value());
  ASSERT_TRUE(a->Execute().has_value());
  ASSERT_TRUE(b->Execute().has_value());
  auto from_b = b->Results();
  auto from_a = a->Results();
  ASSERT_TRUE(from_a.has_value() && from_b.has_value());
  EXPECT_EQ(Values<float>((*from_a)[0]), (std::vector<float>{6, 8, 10, 12}));
  EXPECT_EQ(Values<float>((*from_b)[0]), (std::vector<float>{5, 60, 700, 8000}));
}

// One literal may be several arguments, and need not outlive SetArguments.
TEST_P(DeviceTest, ArgumentsAreCopied) {
  auto executable = Compile(kAdd);
  ASSERT_NE(executable, nullptr);
  {
    Literal x = MakeLiteral<float>("f32[4]", {1, 2, 3, 4});
    ASSERT_TRUE(executable->SetArguments(std::vector<const Literal*>{&x, &x}).has_value());
    for (float& v : x.data<float>()) v = -1;
  }
  ASSERT_TRUE(executable->Execute().has_value());
  auto got = executable->Results();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(Values<float>((*got)[0]), (std::vector<float>{2, 4, 6, 8}));
}

TEST(ClientLifetimeTest, ExecutablesOutliveTheirClient) {
  for (std::string_view selector : {"cpu", "vulkan"}) {
    auto client = Client::Create(selector);
    if (!client) continue;
    auto executable = CompileText(**client, kAdd);
    ASSERT_TRUE(executable.has_value()) << executable.error().ToString();
    client->reset();
    const Literal x = MakeLiteral<float>("f32[4]", {1, 2, 3, 4});
    auto got = (*executable)->Run(std::vector<const Literal*>{&x, &x});
    ASSERT_TRUE(got.has_value()) << got.error().ToString();
    EXPECT_EQ(Values<float>((*got)[0]), (std::vector<float>{2, 4, 6, 8}));
  }
}

TEST_P(DeviceTest, ReportSaysWhereEverythingRuns) {
  auto executable = Compile(kAdd);
  ASSERT_NE(executable, nullptr);
  const CompileReport& report = executable->report();
  EXPECT_EQ(report.instructions, 1);
  EXPECT_EQ(report.device_instructions, 1);
  EXPECT_EQ(report.kernels, 1);
  EXPECT_EQ(report.launches, 1);
  EXPECT_TRUE(report.fallbacks.empty());
  const std::string line = executable->PlacementLine();
  EXPECT_TRUE(line.starts_with("1/1 instructions on " + GetParam().selector)) << line;
}

TEST_P(DeviceTest, StrictNamesWhatTheDeviceDoesNotTake) {
  const std::string_view text = R"(HloModule m
ENTRY main {
  x = f64[4] parameter(0)
  ROOT doubled = f64[4] add(x, x)
})";
  options_.disabled.insert("fp64");
  const Literal x = MakeLiteral<double>("f64[4]", {1, 2, 3, 0.1});
  auto relaxed = CompileText(*client_, text, options_);
  ASSERT_TRUE(relaxed.has_value()) << relaxed.error().ToString();
  auto got = Run(**relaxed, {x});
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(Values<double>(got[0]), (std::vector<double>{2, 4, 6, 0.2}));

  options_.strict = true;
  auto strict = CompileText(*client_, text, options_);
  if (GetParam().selector == "cpu") {
    EXPECT_TRUE(strict.has_value()) << strict.error().ToString();
    return;
  }
  ASSERT_EQ((*relaxed)->report().fallbacks.size(), 1u);
  EXPECT_EQ((*relaxed)->report().device_instructions, 0);
  ASSERT_FALSE(strict.has_value());
  EXPECT_EQ(strict.error().code(), StatusCode::kUnimplemented);
  EXPECT_NE(strict.error().message().find("doubled"), std::string::npos) << strict.error().ToString();

  auto fine = CompileText(*client_, kAdd, options_);
  EXPECT_TRUE(fine.has_value()) << fine.error().ToString();
}

TEST_P(DeviceTest, UnknownFeatureNamesAreErrors) {
  for (const auto& [disabled, enabled] : {std::pair<std::set<std::string>, std::set<std::string>>{{"fusoin"}, {}},
                                          {{}, {"fusion"}},
                                          {{}, {"fp16"}},
                                          {{}, {"nonsense"}}}) {
    const std::string name = disabled.empty() ? *enabled.begin() : *disabled.begin();
    auto refused = CompileText(*client_, kAdd, CompileOptions{.disabled = disabled, .enabled = enabled});
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code(), StatusCode::kInvalidArgument) << name;
    EXPECT_NE(refused.error().message().find(name), std::string::npos) << refused.error().ToString();
  }
  auto taken =
      CompileText(*client_, kAdd, CompileOptions{.disabled = {"fusion", "cse", "bda"}, .enabled = {"coopmat"}});
  EXPECT_TRUE(taken) << taken.error().ToString();
}

// Close to the exact ones, also at the ends of their ranges, and said; the CPU's stay exact.
TEST_P(DeviceTest, FastFunctions) {
  constexpr std::string_view text = R"(HloModule m
    ENTRY e {
      x = f32[10] parameter(0)
      a = f32[10] exponential(x)
      m = f32[10] abs(x)
      b = f32[10] log(m)
      c = f32[10] sqrt(m)
      d = f32[10] rsqrt(m)
      f = f32[10] tanh(x)
      g = f32[10] logistic(x)
      three = f32[] constant(3)
      threes = f32[10] broadcast(three), dimensions={}
      h = f32[10] divide(x, threes)
      ROOT t = (f32[10], f32[10], f32[10], f32[10], f32[10], f32[10], f32[10]) tuple(a, b, c, d, f, g, h) })";
  auto exact = CompileText(*client_, text);
  auto fast = CompileText(*client_, text, CompileOptions{.disabled = {}, .enabled = {"fast-functions"}});
  ASSERT_TRUE(exact && fast) << (fast ? exact : fast).error().ToString();
  const bool on_cpu = GetParam().selector == "cpu";
  EXPECT_EQ((*fast)->PlacementLine().contains("fast functions"), !on_cpu) << (*fast)->PlacementLine();
  EXPECT_FALSE((*exact)->PlacementLine().contains("fast functions"));
  const std::vector<float> x = {-90.0f, -20.0f, -1.5f, -0.4f, -0.01f, 1e-4f, 0.29f, 0.31f, 3.0f, 80.0f};
  auto argument = Literal::FromBytes((*exact)->arguments()[0], std::as_bytes(std::span(x)));
  ASSERT_TRUE(argument);
  const Literal* arguments[] = {&*argument};
  auto want = (*exact)->Run(arguments), got = (*fast)->Run(arguments);
  ASSERT_TRUE(want && got);
  for (std::size_t r = 0; r < want->size(); ++r) {
    EXPECT_TRUE(!on_cpu || (*got)[r] == (*want)[r]) << r;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float w = (*want)[r].data<float>()[i], g = (*got)[r].data<float>()[i];
      EXPECT_LE(std::abs(g - w), 3e-5f * std::abs(w) + 1e-37f) << "result " << r << " of " << x[i];
    }
  }
}

// What was dropped after the compilation is not there to be used.
TEST_P(DeviceTest, WhatIsNotKeptIsNotShared) {
  auto alone = Compile(kAdd);
  ASSERT_NE(alone, nullptr);
  const EvaluatorHost host{};
  if (alone->module() == nullptr) {
    auto another = alone->Another(&host, 2);
    ASSERT_FALSE(another);
    EXPECT_EQ(another.error().code(), StatusCode::kFailedPrecondition);
  } else {
    EXPECT_NE(alone->module()->entry(), nullptr);
  }
  options_.for_group = true;
  auto member = CompileText(*client_, kAdd, options_);
  ASSERT_TRUE(member) << member.error().ToString();
  ASSERT_NE((*member)->module(), nullptr);
  EXPECT_NE((*member)->module()->entry(), nullptr);
  EXPECT_TRUE((*member)->Another(&host, 2));
}

#ifdef KRAFLA_HAVE_VULKAN
// The device's buffers count, down to the four that Vulkan promises: twelve arrays are added up in several kernels.
TEST(PlacementTest, FewBuffersAreEnough) {
  DeviceProfile profile;  // the least that Vulkan 1.1 promises
  profile.name = "the least device";
  ASSERT_EQ(profile.limits.max_per_stage_storage_buffers, 4u);
  std::string text = "HloModule m\nENTRY main {\n  x0 = f32[64] parameter(0)\n";
  for (int n = 1; n < 12; ++n) text += Format("  x{} = f32[64] parameter({})\n", n, n);
  text += "  t1 = f32[64] add(x0, x1)\n";
  for (int n = 2; n < 12; ++n) text += Format("  {}t{} = f32[64] add(t{}, x{})\n", n == 11 ? "ROOT " : "", n, n - 1, n);
  text += "}";
  const auto kernels = [&](const DeviceProfile& device, const CompileOptions& options) {
    auto module = ParseHloText(text);
    EXPECT_TRUE(module) << module.error().ToString();
    auto report = PlacementOn(device, std::move(*module), options);
    EXPECT_TRUE(report) << report.error().ToString();
    EXPECT_TRUE(report->fallbacks.empty()) << report->fallbacks[0].reason;
    return report->launches;
  };
  EXPECT_EQ(kernels(profile, {}), 6);
  profile.features.buffer_device_address = true;
  EXPECT_EQ(kernels(profile, {}), 1);
  EXPECT_EQ(kernels(profile, CompileOptions{.disabled = {"bda"}, .enabled = {}}), 6);
}
#endif

INSTANTIATE_TEST_SUITE_P(Devices, DeviceTest, ::testing::ValuesIn(DeviceCases()), CaseName);

}  // namespace
}  // namespace krafla::testing
