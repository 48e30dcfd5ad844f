// SPDX-License-Identifier: Apache-2.0
// Collectives that go on while a device does something else. That they do is shown without a clock: programs that would
// wait for ever if a collective ended before what follows it begins.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "api/group/device_group.h"
#include "hlo_io/read_module.h"
#include "krafla/custom_call.h"

namespace krafla {
namespace {

// Partition 1 comes to the sum only when partition 0 is in what follows it.
constexpr const char* kBesideProgram = R"(
HloModule overlap, num_partitions=2
sum {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT r = s32[] add(a, b)
}
ENTRY e {
  id = u32[] partition-id()
  before = s32[] custom-call(id), custom_call_target="before"
  s = s32[] all-reduce(before), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=sum
  beside = s32[] custom-call(id), custom_call_target="beside"
  ROOT r = s32[] add(s, beside)
}
)";

// The same in a loop: what is beside the exchange of one turn lets the other device come to it.
constexpr const char* kBesideLoop = R"(
HloModule overlap, num_partitions=2
again {
  p = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT
}
turn {
  p = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = s32[] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  id = u32[] partition-id()
  before = s32[] custom-call(id), custom_call_target="before"
  y = s32[] add(x, before)
  start = (s32[], s32[]) collective-permute-start(y), channel_id=2, source_target_pairs={{0,1},{1,0}}
  beside = s32[] custom-call(id), custom_call_target="beside"
  z = s32[] collective-permute-done(start)
  w = s32[] add(z, beside)
  ROOT t = (s32[], s32[]) tuple(j, w)
}
ENTRY e {
  zero = s32[] constant(0)
  t = (s32[], s32[]) tuple(zero, zero)
  w = (s32[], s32[]) while(t), condition=again, body=turn
  ROOT r = s32[] get-tuple-element(w), index=1
}
)";

class Overlap : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string_view(GetParam()) == "two logical devices") {
      auto first = Client::Create("vulkan:0"), second = Client::Create("vulkan:0");
      if (!first || !second) GTEST_SKIP() << "There is no Vulkan device.";
      group_ = std::make_shared<DeviceGroup>(std::vector{*first, *second});
    } else {
      auto group = DeviceGroup::Create(GetParam());
      if (!group) GTEST_SKIP() << group.error().ToString();
      group_ = *group;
    }
    options_.custom_calls = &registry_;
    options_.enabled = {"overlap-all"};
    ASSERT_TRUE(registry_.AddFunction("before", [this](const CustomCallFrame& frame) {
      return Call(
          frame,
          [this]() -> Result<> {
            std::unique_lock lock(mutex_);
            ++turns_of_second_;
            if (changed_.wait_for(lock, patience_, [this] { return turns_of_first_ >= turns_of_second_; })) return {};
            return DeadlineExceeded("Partition 0 does nothing while its collective waits.");
          },
          nullptr, 0);
    }));
    ASSERT_TRUE(registry_.AddFunction("beside", [this](const CustomCallFrame& frame) {
      return Call(
          frame, nullptr,
          [this]() -> Result<> {
            std::lock_guard lock(mutex_);
            ++turns_of_first_;
            changed_.notify_all();
            return fails_ ? OutOfRange("nothing beside") : Result<>();
          },
          10);
    }));
  }
  // Gives the partition's number plus `more`.
  static Result<> Call(const CustomCallFrame& frame, const std::function<Result<>()>& second,
                       const std::function<Result<>()>& first, int32_t more) {
    const auto id = static_cast<int32_t>(frame.operands[0]->data<uint32_t>()[0]);
    if (id == 1 && second) KRAFLA_TRY(second());
    if (id == 0 && first) KRAFLA_TRY(first());
    frame.result->data<int32_t>()[0] = id + more;
    return {};
  }
  Result<std::vector<int32_t>> Run(const char* text) {
    KRAFLA_ASSIGN(auto module, ReadModule(text, "test"));
    KRAFLA_ASSIGN(auto executable, group_->Compile(std::move(module), options_, {.time_limit = patience_}));
    for (int64_t d = 0; d < 2; ++d) KRAFLA_TRY(executable->SetArguments(d, {}));
    KRAFLA_TRY(executable->Execute());
    std::vector<int32_t> out;
    for (int64_t d = 0; d < 2; ++d) {
      KRAFLA_ASSIGN(auto results, executable->Results(d));
      out.push_back(results[0].data<int32_t>()[0]);
    }
    times_ = executable->exchange_times();
    return out;
  }

  std::shared_ptr<DeviceGroup> group_;
  CustomCallRegistry registry_;
  CompileOptions options_;
  std::chrono::milliseconds patience_{20'000};
  std::mutex mutex_;
  std::condition_variable changed_;
  int turns_of_first_ = 0, turns_of_second_ = 0;
  bool fails_ = false;
  ExchangeTimes times_;
};
INSTANTIATE_TEST_SUITE_P(Devices, Overlap, ::testing::Values("cpu*2", "vulkan:0,cpu", "two logical devices"));

TEST_P(Overlap, WorkGoesOnWhileACollectiveWaits) {
  const auto got = Run(kBesideProgram);
  ASSERT_TRUE(got) << got.error().ToString();
  EXPECT_EQ(*got, (std::vector<int32_t>{11, 12}));
  EXPECT_GT(times_.on_lane_ms, 0);
}

TEST_P(Overlap, InEveryTurnOfALoop) {
  const auto got = Run(kBesideLoop);
  ASSERT_TRUE(got) << got.error().ToString();
  // x' of a device is x + id of the other one, plus 10 and its own id.
  int32_t x[2] = {0, 0};
  for (int turn = 0; turn < 3; ++turn) {
    const int32_t next[2] = {x[1] + 1 + 10, x[0] + 0 + 11};
    x[0] = next[0], x[1] = next[1];
  }
  EXPECT_EQ(*got, (std::vector<int32_t>{x[0], x[1]}));
}

// The program is one that waits for ever without: switched off, it says so.
TEST_P(Overlap, SwitchedOffItWaits) {
  options_.enabled.clear();
  options_.disabled = {"overlap"};
  patience_ = std::chrono::milliseconds(300);
  const auto got = Run(kBesideProgram);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), StatusCode::kDeadlineExceeded) << got.error().ToString();
}

// A device that fails while its collective waits ends the others' waits, and its own.
TEST_P(Overlap, AFailureBesideACollectiveEndsTheRun) {
  fails_ = true;
  const auto start = std::chrono::steady_clock::now();
  const auto got = Run(kBesideProgram);
  ASSERT_FALSE(got);
  EXPECT_NE(got.error().ToString().find("nothing beside"), std::string::npos) << got.error().ToString();
  EXPECT_LT(std::chrono::steady_clock::now() - start, patience_ / 2);
}

}  // namespace
}  // namespace krafla
