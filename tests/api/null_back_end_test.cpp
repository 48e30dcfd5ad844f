// SPDX-License-Identifier: Apache-2.0
// A device type from outside: all that one needs. Its programs are run by the evaluator.
#include <gtest/gtest.h>

#include <utility>

#include "api/back_ends.h"
#include "api/front_end.h"
#include "api/group/device_group.h"
#include "api_fixture.h"
#include "evaluator/evaluator.h"
#include "krafla/local_client.h"

namespace krafla::testing {
namespace {

class NullExecutable : public Executable {
 public:
  NullExecutable(std::shared_ptr<const plan::ProgramPlan> plan, EntryInterface interface, CompileReport report)
      : Executable(std::move(interface), std::move(report), "null:0 (nothing)"), plan_(std::move(plan)) {
    report_.device_instructions = report_.instructions;
  }
  const std::vector<Shape>& arguments() const override { return plan_->arguments; }
  const std::vector<Shape>& results() const override { return plan_->results; }
  Result<> SetArguments(std::span<const Literal* const> arguments) override {
    KRAFLA_TRY(CheckArguments(arguments, plan_->arguments));
    arguments_.clear();
    for (const Literal* a : arguments) {
      KRAFLA_ASSIGN(Literal copy, CopyOf(*a));
      arguments_.push_back(std::move(copy));
    }
    return {};
  }
  Result<> Execute() override {
    KRAFLA_ASSIGN(Literal made, Evaluate(*module()->entry(), Pointers(arguments_), {.host = host_}));
    results_.clear();
    if (made.shape().IsTuple()) results_ = std::move(made.elements());
    else results_.push_back(std::move(made));
    return {};
  }
  Result<std::vector<Literal>> Results() override { return std::exchange(results_, {}); }
  Result<> Join(const EvaluatorHost* host, int64_t) override {
    host_ = host;
    return {};
  }
  Result<std::unique_ptr<Executable>> Another(const EvaluatorHost* host, int64_t devices) const override {
    auto out = std::make_unique<NullExecutable>(plan_, interface_, report_);
    KRAFLA_TRY(out->Join(host, devices));
    return out;
  }
  const Module* module() const override { return plan_->module.get(); }

 private:
  std::shared_ptr<const plan::ProgramPlan> plan_;
  const EvaluatorHost* host_ = nullptr;
  std::vector<Literal> arguments_, results_;
};

DeviceDescription DescribeNull() {
  return {.selector = "null:0", .description = "null:0 (nothing)", .name = "nothing"};
}

class NullClient : public Client {
 public:
  NullClient() { device_ = DescribeNull(); }
  Result<std::unique_ptr<Executable>> Compile(std::unique_ptr<Module> module, const CompileOptions& options) override {
    CompileReport report;
    FrontEnd front_end(std::move(module), options, report, device_.target);
    KRAFLA_TRY(front_end.Optimize());
    KRAFLA_ASSIGN(plan::ProgramPlan plan, front_end.Plan(nullptr));
    return std::make_unique<NullExecutable>(std::make_shared<const plan::ProgramPlan>(std::move(plan)),
                                            front_end.interface(), std::move(report));
  }
};

constexpr BackEnd kNull{
    .name = "null",
    .selectors = "null, null:0",
    .list = [] -> Result<std::vector<DeviceDescription>> { return std::vector{DescribeNull()}; },
    .create = [](std::string_view selector, const ClientOptions&, std::string_view) -> Result<std::shared_ptr<Client>> {
      if (selector != "null" && selector != "null:0") return NotFound("There is no device '{}'.", selector);
      return std::make_shared<NullClient>();
    }};

bool IsListed() {
  const Result<std::vector<DeviceDescription>> devices = ListDevices();
  return devices && std::ranges::contains(*devices, std::string("null:0"), &DeviceDescription::selector);
}

TEST(NullBackEndTest, IsFoundWhileItIsRegistered) {
  EXPECT_FALSE(IsListed());
  const Result<std::shared_ptr<Client>> before = Client::Create("null");
  ASSERT_FALSE(before);
  EXPECT_EQ(before.error().code(), StatusCode::kInvalidArgument);
  {
    const Result<BackEndRegistration> registration = BackEndRegistration::Make(kNull);
    ASSERT_TRUE(registration) << registration.error().ToString();
    EXPECT_TRUE(IsListed());
    EXPECT_TRUE(Client::Create("null:0"));
    EXPECT_EQ(Client::Create("null:7").error().code(), StatusCode::kNotFound);
    EXPECT_NE(Client::Create("nulls").error().message().find("null:0"), std::string::npos);
    EXPECT_NE((*Client::Create(""))->device().name, "nothing") << "who takes any device never gets one";
    EXPECT_EQ(BackEndRegistration::Make(kNull).error().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(BackEndRegistration::Make({.name = "cpu", .list = kNull.list, .create = kNull.create}).error().code(),
              StatusCode::kInvalidArgument);
    EXPECT_EQ(BackEndRegistration::Make({.name = "half"}).error().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_FALSE(IsListed());
  EXPECT_FALSE(Client::Create("null"));
}

TEST(NullBackEndTest, RunsPrograms) {
  const Result<BackEndRegistration> registration = BackEndRegistration::Make(kNull);
  ASSERT_TRUE(registration) << registration.error().ToString();
  Result<LocalClient> client = LocalClient::Create("null");
  ASSERT_TRUE(client) << client.error().ToString();
  EXPECT_EQ(client->device().selector, "null:0");
  Result<XlaComputation> program =
      LoadHlo("HloModule m\nENTRY e { x = f32[2] parameter(0) ROOT r = f32[2] add(x, x) }");
  ASSERT_TRUE(program) << program.error().ToString();
  Result<LocalExecutable> executable = client->Compile(*program);
  ASSERT_TRUE(executable) << executable.error().ToString();
  const Literal x = MakeLiteral<float>("f32[2]", {1, 2});
  const Result<Literal> sum = executable->Run({x});
  ASSERT_TRUE(sum) << sum.error().ToString();
  EXPECT_EQ(Values<float>(*sum), (std::vector<float>{2, 4}));

  // Two virtual devices, each of which asks who it is.
  Result<std::shared_ptr<DeviceGroup>> group = DeviceGroup::Create("null*2");
  ASSERT_TRUE(group) << group.error().ToString();
  auto module = ParseHloText("HloModule m, replica_count=2\nENTRY e { ROOT r = u32[] replica-id() }");
  ASSERT_TRUE(module) << module.error().ToString();
  auto both = (*group)->Compile(std::move(*module), {});
  ASSERT_TRUE(both) << both.error().ToString();
  const Result<> run = (*both)->Execute();
  ASSERT_TRUE(run) << run.error().ToString();
  for (int64_t d = 0; d < 2; ++d) EXPECT_EQ(Values<uint32_t>((*(*both)->Results(d))[0])[0], d);
}

}  // namespace
}  // namespace krafla::testing
