// SPDX-License-Identifier: Apache-2.0
// What a program asks of the host: custom calls with functions and with kernels, infeed, outfeed and host channels.
#include <algorithm>
#include <thread>

#include "api/host/host_transfers.h"
#include "api_fixture.h"
#include "krafla/custom_call.h"
#include "passes/pipeline.h"
#include "plan/planner.h"
#include "spirv_codegen/emit.h"

namespace krafla::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kTripleCall = R"(HloModule m
ENTRY main {
  x = f32[5] parameter(0)
  n = f32[5] negate(x)
  y = f32[5] custom-call(n), custom_call_target="test.triple", backend_config="by 3"
  ROOT r = f32[5] negate(y)
})";

class HostTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    transfers_ = std::make_shared<HostTransfers>(200ms);
    options_.custom_calls = &registry_;
    options_.transfers = transfers_;
  }
  void AddTriple() {
    auto added = registry_.AddFunction("test.triple", [this](const CustomCallFrame& frame) -> Result<> {
      config_ = frame.config;
      if (fails_) return OutOfRange("no threes today");
      auto in = frame.operands[0]->data<float>();
      auto out = frame.result->data<float>();
      for (std::size_t i = 0; i < in.size(); ++i) out[i] = in[i] * 3;
      return {};
    });
    ASSERT_TRUE(added.has_value());
  }
  static HostTransfers::Item ItemOf(Literal literal) {
    HostTransfers::Item out;
    out.push_back(std::move(literal));
    return out;
  }

  CustomCallRegistry registry_;
  std::shared_ptr<HostTransfers> transfers_;
  std::string config_;
  bool fails_ = false;
};

TEST_P(HostTest, CustomCallRunsAFunction) {
  AddTriple();
  auto executable = Compile(kTripleCall);
  ASSERT_NE(executable, nullptr);
  for (int run = 0; run < 2; ++run) {
    auto got = Run(*executable, {MakeLiteral<float>("f32[5]", {1, 2, 3, -4, 0.5})});
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(Values<float>(got[0]), (std::vector<float>{3, 6, 9, -12, 1.5}));
  }
  EXPECT_NE(config_.find("by 3"), std::string::npos);
  fails_ = true;
  const Literal x = MakeLiteral<float>("f32[5]", {1, 2, 3, 4, 5});
  auto failed = executable->Run(std::vector<const Literal*>{&x});
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code(), StatusCode::kOutOfRange);
  EXPECT_NE(failed.error().ToString().find("test.triple"), std::string::npos) << failed.error().ToString();
}

// Calls that say that they have an effect run whether or not somebody reads what they give, in loops and branches too;
// in the order of tokens, where they have some.
TEST_P(HostTest, CustomCallsWithEffectsAlwaysRun) {
  std::vector<float> seen;
  ASSERT_TRUE(registry_.AddFunction("test.note", [&](const CustomCallFrame& frame) -> Result<> {
    for (const Literal* o : frame.operands)
      if (o->shape().IsArray()) seen.push_back(o->data<float>()[0]);
    return {};
  }));
  auto executable = Compile(R"(HloModule m
loud {
  x = f32[] parameter(0)
  noted = () custom-call(x), custom_call_target="test.note", custom_call_has_side_effect=true
  ROOT y = f32[] negate(x)
}
quiet {
  ROOT x = f32[] parameter(0)
}
step {
  p = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  v = f32[] get-tuple-element(p), index=1
  noted = () custom-call(v), custom_call_target="test.note", custom_call_has_side_effect=true
  one = s32[] constant(1)
  next = s32[] add(i, one)
  two = f32[] constant(2)
  twice = f32[] multiply(v, two)
  ROOT r = (s32[], f32[]) tuple(next, twice)
}
less {
  p = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  three = s32[] constant(3)
  ROOT c = pred[] compare(i, three), direction=LT
}
ENTRY main {
  x = f32[] parameter(0)
  chosen = pred[] parameter(1)
  t = token[] after-all()
  first = (token[], f32[]) custom-call(t, x), custom_call_target="test.note", custom_call_has_side_effect=true
  after = token[] get-tuple-element(first), index=0
  n = f32[] negate(x)
  second = token[] custom-call(after, n), custom_call_target="test.note", custom_call_has_side_effect=true
  zero = s32[] constant(0)
  start = (s32[], f32[]) tuple(zero, x)
  loop = (s32[], f32[]) while(start), condition=less, body=step
  c = f32[] conditional(chosen, x, x), true_computation=loud, false_computation=quiet
  ROOT r = f32[] add(x, x)
})");
  ASSERT_NE(executable, nullptr);
  const Literal x = MakeLiteral<float>("f32[]", {5});
  for (const bool chosen : {true, false}) {
    seen.clear();
    const Literal c = MakeLiteral<uint8_t>("pred[]", {chosen});
    auto out = executable->Run(std::vector<const Literal*>{&x, &c});
    ASSERT_TRUE(out.has_value()) << out.error().ToString();
    EXPECT_LT(std::ranges::find(seen, 5), std::ranges::find(seen, -5));
    EXPECT_LT(std::ranges::find(seen, 10), std::ranges::find(seen, 20));
    std::ranges::sort(seen);
    std::vector<float> expected = {-5, 5, 5, 10, 20};
    if (chosen) expected = {-5, 5, 5, 5, 10, 20};
    EXPECT_EQ(seen, expected);
  }
}

TEST_P(HostTest, DceSinkTakesWhatItIsGiven) {
  auto executable = Compile(R"(HloModule m
ENTRY main {
  x = f32[2] parameter(0)
  n = f32[2] negate(x)
  gone = () custom-call(n), custom_call_target="dce_sink", custom_call_has_side_effect=true
  ROOT y = f32[2] add(x, x)
})");
  ASSERT_NE(executable, nullptr);
  auto got = Run(*executable, {MakeLiteral<float>("f32[2]", {1, 2})});
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(Values<float>(got[0]), (std::vector<float>{2, 4}));
}

TEST_P(HostTest, UnknownCustomCallDoesNotCompile) {
  AddTriple();
  auto out = CompileText(*client_, R"(HloModule m
ENTRY main {
  x = f32[5] parameter(0)
  ROOT y = f32[5] custom-call(x), custom_call_target="test.tripel"
})",
                         options_);
  ASSERT_FALSE(out.has_value());
  EXPECT_EQ(out.error().code(), StatusCode::kNotFound);
  EXPECT_NE(out.error().message().find("'test.tripel'"), std::string::npos) << out.error().ToString();
  EXPECT_NE(out.error().message().find(", test.triple."), std::string::npos) << out.error().ToString();
  EXPECT_NE(out.error().message().find("Sharding"), std::string::npos) << out.error().ToString();
}

TEST_P(HostTest, CustomCallGivesATuple) {
  ASSERT_TRUE(registry_
                  .AddFunction("test.split",
                               [](const CustomCallFrame& frame) -> Result<> {
                                 auto in = frame.operands[0]->data<int32_t>();
                                 for (std::size_t half = 0; half < 2; ++half) {
                                   auto out = frame.result->elements()[half].data<int32_t>();
                                   std::copy_n(in.begin() + static_cast<std::ptrdiff_t>(half * 2), 2, out.begin());
                                 }
                                 return {};
                               })
                  .has_value());
  auto got = Run(R"(HloModule m
ENTRY main {
  x = s32[4] parameter(0)
  p = (s32[2], s32[2]) custom-call(x), custom_call_target="test.split"
  a = s32[2] get-tuple-element(p), index=0
  b = s32[2] get-tuple-element(p), index=1
  ROOT r = s32[2] subtract(b, a)
})",
                 {MakeLiteral<int32_t>("s32[4]", {1, 2, 30, 40})});
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(Values<int32_t>(got[0]), (std::vector<int32_t>{29, 38}));
}

// The kernel of x * 3 as this code generator writes it for devices with descriptors.
Result<CustomCallKernel> TripleKernel(const DeviceProfile& device) {
  KRAFLA_ASSIGN(std::unique_ptr<Module> module, ParseHloText(R"(HloModule m
ENTRY main {
  x = f32[5] parameter(0)
  three = f32[] constant(3)
  threes = f32[5] broadcast(three), dimensions={}
  ROOT r = f32[5] multiply(x, threes)
})"));
  KRAFLA_TRY(RunPipeline(*module, {}));
  KRAFLA_ASSIGN(VerifiedModule verified, VerifiedModule::Make(std::move(module)));
  KRAFLA_ASSIGN(plan::ProgramPlan plan, plan::PlanProgram(std::move(verified), {}));
  const std::vector<std::string> off = {"bda"};
  KRAFLA_ASSIGN(DeviceProfile profile, device.WithDisabled(off));
  if (plan.kernels.size() != 1) return Internal("{} kernels", plan.kernels.size());
  KRAFLA_ASSIGN(spirv::EmittedProgram program, spirv::Emit(plan.kernels[0], profile));
  if (program.kernels.size() != 1 || program.kernels[0].push_words != 0) return Internal("not a plain kernel");
  CustomCallKernel out;
  out.spirv = program.kernels[0].words;
  for (const auto& use : program.kernels[0].buffers) out.bindings.push_back(use.buffer);
  out.grid = [grid = program.dispatches[0].grid](std::span<const Shape>) { return grid; };
  return out;
}

TEST_P(HostTest, CustomCallRunsAKernel) {
  if (!client_->device().target.runs_spirv) {
    CustomCallKernel none;
    EXPECT_FALSE(registry_.AddKernel("test.triple", none).has_value()) << "no SPIR-V was taken for some";
    GTEST_SKIP() << "kernels are for Vulkan devices";
  }
  auto kernel = TripleKernel(*client_->device().profile);
  ASSERT_TRUE(kernel.has_value()) << kernel.error().ToString();
  CustomCallKernel misnamed = *kernel;
  misnamed.entry_point = "mane";
  EXPECT_FALSE(registry_.AddKernel("test.triple", misnamed).has_value());
  ASSERT_TRUE(registry_.AddKernel("test.triple", *kernel).has_value());
  EXPECT_FALSE(registry_.AddKernel("test.triple", *kernel).has_value()) << "registered twice";
  options_.strict = true;  // no step on the host
  auto executable = Compile(kTripleCall);
  ASSERT_NE(executable, nullptr);
  EXPECT_TRUE(executable->report().fallbacks.empty());
  auto got = Run(*executable, {MakeLiteral<float>("f32[5]", {1, 2, 3, -4, 0.5})});
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(Values<float>(got[0]), (std::vector<float>{3, 6, 9, -12, 1.5}));

  auto cpu = SharedClient("cpu");
  ASSERT_TRUE(cpu.has_value());
  auto refused = CompileText(**cpu, kTripleCall, options_);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), StatusCode::kNotFound);
}

constexpr std::string_view kFeeds = R"(HloModule m
ENTRY main {
  x = f32[3] parameter(0)
  t0 = token[] after-all()
  in = ((f32[3], s32[]), token[]) infeed(t0)
  data = (f32[3], s32[]) get-tuple-element(in), index=0
  t1 = token[] get-tuple-element(in), index=1
  a = f32[3] get-tuple-element(data), index=0
  k = s32[] get-tuple-element(data), index=1
  sum = f32[3] add(x, a)
  pair = (f32[3], s32[]) tuple(sum, k)
  t2 = token[] outfeed(pair, t1), outfeed_shape=(f32[3], s32[])
  ROOT r = f32[3] negate(sum)
})";

TEST_P(HostTest, InfeedAndOutfeed) {
  auto executable = Compile(kFeeds);
  ASSERT_NE(executable, nullptr);
  const Literal x = MakeLiteral<float>("f32[3]", {1, 2, 3});
  for (int run = 0; run < 3; ++run) {
    HostTransfers::Item item = ItemOf(MakeLiteral<float>("f32[3]", {10, 20, 30.0f + static_cast<float>(run)}));
    item.push_back(MakeLiteral<int32_t>("s32[]", {run}));
    transfers_->PushInfeed(std::move(item));
  }
  for (int run = 0; run < 3; ++run) {
    auto got = executable->Run(std::vector<const Literal*>{&x});
    ASSERT_TRUE(got.has_value()) << got.error().ToString();
    auto out = transfers_->PopOutfeed(0ms);
    ASSERT_TRUE(out.has_value()) << out.error().ToString();
    ASSERT_EQ(out->size(), 2u);
    EXPECT_EQ(Values<float>((*out)[0]), (std::vector<float>{11, 22, 33.0f + static_cast<float>(run)}));
    EXPECT_EQ(Values<int32_t>((*out)[1]), (std::vector<int32_t>{run}));
  }
  EXPECT_EQ(transfers_->waiting(), 0);
}

TEST_P(HostTest, RunsThatNobodyFeedsEnd) {
  auto executable = Compile(kFeeds);
  ASSERT_NE(executable, nullptr);
  const Literal x = MakeLiteral<float>("f32[3]", {1, 2, 3});
  auto hungry = executable->Run(std::vector<const Literal*>{&x});
  ASSERT_FALSE(hungry.has_value());
  EXPECT_EQ(hungry.error().code(), StatusCode::kDeadlineExceeded) << hungry.error().ToString();

  transfers_->PushInfeed(ItemOf(MakeLiteral<float>("f32[2]", {1, 2})));
  auto wrong = executable->Run(std::vector<const Literal*>{&x});
  ASSERT_FALSE(wrong.has_value());
  EXPECT_EQ(wrong.error().code(), StatusCode::kInvalidArgument) << wrong.error().ToString();

  transfers_->Cancel();
  auto cancelled = executable->Run(std::vector<const Literal*>{&x});
  ASSERT_FALSE(cancelled.has_value());
  EXPECT_EQ(cancelled.error().code(), StatusCode::kCancelled);
  transfers_->Reset();

  // Fed while it waits.
  std::thread feeder([&] {
    std::this_thread::sleep_for(20ms);
    HostTransfers::Item item = ItemOf(MakeLiteral<float>("f32[3]", {1, 1, 1}));
    item.push_back(MakeLiteral<int32_t>("s32[]", {7}));
    transfers_->PushInfeed(std::move(item));
  });
  auto fed = executable->Run(std::vector<const Literal*>{&x});
  feeder.join();
  ASSERT_TRUE(fed.has_value()) << fed.error().ToString();
  EXPECT_EQ(Values<float>((*fed)[0]), (std::vector<float>{-2, -3, -4}));
}

TEST_P(HostTest, SendAndRecvOnHostChannels) {
  auto executable = Compile(R"(HloModule m
ENTRY main {
  x = f32[4] parameter(0)
  t = token[] after-all()
  s = (f32[4], u32[], token[]) send(x, t), channel_id=5, is_host_transfer=true
  sd = token[] send-done(s), channel_id=5, is_host_transfer=true
  r = (f32[4], u32[], token[]) recv(sd), channel_id=6, is_host_transfer=true
  rd = (f32[4], token[]) recv-done(r), channel_id=6, is_host_transfer=true
  got = f32[4] get-tuple-element(rd), index=0
  ROOT sum = f32[4] add(got, x)
})");
  ASSERT_NE(executable, nullptr);
  // The host answers with what it hears, doubled: only an in-order program gets an answer.
  std::thread host([&] {
    auto heard = transfers_->PopFromDevice(5, 5000ms);
    if (!heard) return;
    for (float& v : (*heard)[0].data<float>()) v *= 2;
    transfers_->PushToDevice(6, std::move(*heard));
  });
  auto got = Run(*executable, {MakeLiteral<float>("f32[4]", {1, 2, 3, 4})});
  host.join();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(Values<float>(got[0]), (std::vector<float>{3, 6, 9, 12}));
}

// The host hears and gives arrays of the size that they have.
TEST_P(HostTest, SendAndRecvOfRunTimeSize) {
  auto executable = Compile(R"(HloModule m
ENTRY main {
  x = f32[<=4] parameter(0)
  t = token[] after-all()
  s = (f32[<=4], u32[], token[]) send(x, t), channel_id=5, is_host_transfer=true
  sd = token[] send-done(s), channel_id=5, is_host_transfer=true
  r = (f32[<=4,2], u32[], token[]) recv(sd), channel_id=6, is_host_transfer=true
  rd = (f32[<=4,2], token[]) recv-done(r), channel_id=6, is_host_transfer=true
  got = f32[<=4,2] get-tuple-element(rd), index=0
  t2 = token[] get-tuple-element(rd), index=1
  again = (f32[<=4,2], u32[], token[]) send(got, t2), channel_id=5, is_host_transfer=true
  sd2 = token[] send-done(again), channel_id=5, is_host_transfer=true
  ROOT sum = f32[<=4,2] negate(got)
})");
  ASSERT_NE(executable, nullptr);
  std::string heard;
  std::thread host([&] {
    for (int n = 0; n < 2; ++n) {
      auto item = transfers_->PopFromDevice(5, 5000ms);
      if (!item) return;
      heard += (*item)[0].shape().ToString(false) + " ";
      if (n > 0) return;
      std::vector<Literal> answer;
      answer.push_back(MakeLiteral<float>("f32[1,2]", {7, 8}));
      transfers_->PushToDevice(6, std::move(answer));
    }
  });
  auto got = Run(*executable, {MakeLiteral<float>("f32[3]", {1, 2, 3})});
  host.join();
  EXPECT_EQ(heard, "f32[3] f32[1,2] ");
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].shape().ToString(false), "f32[1,2]");
  EXPECT_EQ(Values<float>(got[0]), (std::vector<float>{-7, -8}));
}

TEST(HostTransfersTest, AFullQueueMakesTheRunWait) {
  HostTransfers transfers(30ms, 10);
  const Literal twelve = MakeLiteral<float>("f32[3]", {1, 2, 3});
  ASSERT_TRUE(transfers.GiveOutfeed(twelve).has_value()) << "one item always fits";
  auto full = transfers.GiveOutfeed(twelve);
  ASSERT_FALSE(full.has_value());
  EXPECT_EQ(full.error().code(), StatusCode::kDeadlineExceeded);
  ASSERT_TRUE(transfers.PopOutfeed(0ms).has_value());
  EXPECT_TRUE(transfers.GiveOutfeed(twelve).has_value());
}

INSTANTIATE_TEST_SUITE_P(Devices, HostTest, ::testing::ValuesIn(DeviceCases()), CaseName);

}  // namespace
}  // namespace krafla::testing
