// SPDX-License-Identifier: Apache-2.0
// Waits: they end, and say why.
#include <atomic>
#include <chrono>

#include "group_fixture.h"

namespace krafla {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Two all-reduces over all devices.
struct TwoSums {
  explicit TwoSums(int64_t devices, std::shared_ptr<const Combiner> combiner = std::make_shared<SumF32>())
      : module(ParseFor(std::string("HloModule m\n") + kSum +
                            "ENTRY e {\n  x = f32[2048] parameter(0)\n  first = "
                            "f32[2048] all-reduce(x), to_apply=sum\n  ROOT second = f32[2048] all-reduce(first), "
                            "to_apply=sum\n}\n",
                        {devices, 1})) {
    const Instruction& root = *module->entry()->root();
    second = *Collective::Make(root, {devices, 1}, combiner);
    first = *Collective::Make(*root.operand(0), {devices, 1}, combiner);
  }
  std::unique_ptr<Module> module;
  std::unique_ptr<const Collective> first, second;
};

Result<> Meet(Rendezvous& rendezvous, int64_t device, const Collective& collective) {
  Floats in = Values(device, 2048), out(2048);
  const std::byte* from[] = {reinterpret_cast<const std::byte*>(in.data())};
  std::byte* to[] = {reinterpret_cast<std::byte*>(out.data())};
  return rendezvous.Meet(device, collective, {from, to});
}

TEST(Rendezvous, TheTimeLimitNamesWhoIsMissing) {
  TwoSums sums(3);
  Rendezvous rendezvous(3, {.time_limit = milliseconds(50)});
  std::atomic<bool> over = false;
  auto outcomes = OnEveryDevice(rendezvous, 3, [&](int64_t d) -> Result<> {
    if (d == 2) {
      while (!over) std::this_thread::sleep_for(milliseconds(1));  // at work on something else
      return Meet(rendezvous, d, *sums.first);
    }
    auto result = Meet(rendezvous, d, *sums.first);
    over = true;
    return result;
  });
  ASSERT_TRUE(rendezvous.failure());
  EXPECT_EQ(rendezvous.failure()->code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(rendezvous.failure()->message().find("all-reduce 'first'"), std::string::npos);
  EXPECT_NE(rendezvous.failure()->message().find("0.05 s"), std::string::npos);
  EXPECT_NE(rendezvous.failure()->message().find("device 2 is still at work before it"), std::string::npos)
      << rendezvous.failure()->message();
  for (const auto& outcome : outcomes) EXPECT_FALSE(outcome);
  EXPECT_EQ(outcomes[2].error().code(), StatusCode::kAborted);
}

TEST(Rendezvous, DevicesThatWaitForEachOtherAreFoundAtOnce) {
  TwoSums sums(2);
  Rendezvous rendezvous(2, {.time_limit = std::chrono::hours(1)});
  const auto start = steady_clock::now();
  auto outcomes =
      OnEveryDevice(rendezvous, 2, [&](int64_t d) { return Meet(rendezvous, d, d == 0 ? *sums.first : *sums.second); });
  EXPECT_LT(steady_clock::now() - start, std::chrono::minutes(1));
  EXPECT_EQ(rendezvous.failure()->code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(rendezvous.failure()->message().find("waits in all-reduce"), std::string::npos)
      << rendezvous.failure()->message();
  for (const auto& outcome : outcomes) EXPECT_FALSE(outcome);
}

TEST(Rendezvous, NobodyWaitsForADeviceThatHasFinished) {
  TwoSums sums(2);
  Rendezvous rendezvous(2, {.time_limit = std::chrono::hours(1)});
  auto outcomes = OnEveryDevice(rendezvous, 2, [&](int64_t d) -> Result<> {
    if (d == 1) return {};
    return Meet(rendezvous, d, *sums.first);
  });
  EXPECT_TRUE(outcomes[1]);
  EXPECT_EQ(outcomes[0].error().code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(rendezvous.failure()->message().find("device 1 has finished the program"), std::string::npos);
}

TEST(Rendezvous, AnErrorOnOneDeviceEndsTheWaitsOfTheOthers) {
  TwoSums sums(4);
  Rendezvous rendezvous(4, {.time_limit = std::chrono::hours(1)});
  auto outcomes = OnEveryDevice(rendezvous, 4, [&](int64_t d) -> Result<> {
    if (d == 3) return ResourceExhausted("no memory for the arena");
    return Meet(rendezvous, d, *sums.first);
  });
  EXPECT_EQ(rendezvous.failure()->code(), StatusCode::kResourceExhausted);
  for (std::size_t d = 0; d < 3; ++d) {
    EXPECT_EQ(outcomes[d].error().code(), StatusCode::kAborted);
    EXPECT_NE(outcomes[d].error().message().find("no memory for the arena"), std::string::npos);
  }
  // The next run knows nothing of it.
  outcomes = OnEveryDevice(rendezvous, 4, [&](int64_t d) { return Meet(rendezvous, d, *sums.first); });
  for (const auto& outcome : outcomes) EXPECT_TRUE(outcome);
  EXPECT_FALSE(rendezvous.failure());
}

class Fails : public Combiner {
  Result<> Combine(std::byte*, const std::byte*, int64_t) const override { return DataLoss("cannot add"); }
};

TEST(Rendezvous, AnErrorInsideReachesEveryMember) {
  TwoSums sums(3, std::make_shared<Fails>());
  Rendezvous rendezvous(3, {});
  auto outcomes = OnEveryDevice(rendezvous, 3, [&](int64_t d) { return Meet(rendezvous, d, *sums.first); });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.error().code(), StatusCode::kDataLoss);
}

TEST(Rendezvous, ManyMeetingsInARow) {
  TwoSums sums(5);
  Rendezvous rendezvous(5, {});
  auto outcomes = OnEveryDevice(rendezvous, 5, [&](int64_t d) -> Result<> {
    for (int n = 0; n < 50; ++n) {
      KRAFLA_TRY(Meet(rendezvous, d, *sums.first));
      KRAFLA_TRY(Meet(rendezvous, d, *sums.second));
    }
    return {};
  });
  for (const auto& outcome : outcomes) EXPECT_TRUE(outcome) << outcome.error().ToString();
}

Result<> SendNumber(Rendezvous& r, int64_t from, int64_t to, int32_t number) {
  const std::byte* leaf[] = {reinterpret_cast<const std::byte*>(&number)};
  const int64_t size[] = {4};
  return r.Send({1, from, to}, leaf, size, "send 's'");
}
Result<int32_t> ReceiveNumber(Rendezvous& r, int64_t from, int64_t to) {
  int32_t number = -1;
  std::byte* leaf[] = {reinterpret_cast<std::byte*>(&number)};
  const int64_t size[] = {4};
  KRAFLA_TRY(r.Receive({1, from, to}, leaf, size, "recv-done 'r'"));
  return number;
}

TEST(Rendezvous, MessagesArriveInOrderAndTheSenderWaitsWhenTooManyAreUnderWay) {
  Rendezvous rendezvous(2, {});
  auto outcomes = OnEveryDevice(rendezvous, 2, [&](int64_t d) -> Result<> {
    for (int32_t n = 0; n < 200; ++n) {
      if (d == 0) KRAFLA_TRY(SendNumber(rendezvous, 0, 1, n));
      if (d == 0) continue;
      KRAFLA_ASSIGN(int32_t got, ReceiveNumber(rendezvous, 0, 1));
      if (got != n) return DataLoss("{} came, not {}", got, n);
    }
    return {};
  });
  for (const auto& outcome : outcomes) EXPECT_TRUE(outcome) << outcome.error().ToString();
}

TEST(Rendezvous, RingsOfSendsDoNotWaitForTheReceiver) {
  Rendezvous rendezvous(4, {});
  auto outcomes = OnEveryDevice(rendezvous, 4, [&](int64_t d) -> Result<> {
    KRAFLA_TRY(SendNumber(rendezvous, d, (d + 1) % 4, static_cast<int32_t>(d)));
    KRAFLA_ASSIGN(int32_t got, ReceiveNumber(rendezvous, (d + 3) % 4, d));
    if (got != (d + 3) % 4) return DataLoss("{} came", got);
    return {};
  });
  for (const auto& outcome : outcomes) EXPECT_TRUE(outcome) << outcome.error().ToString();
}

TEST(Rendezvous, AMessageThatNeverComesAndOneThatNobodyTakes) {
  Rendezvous rendezvous(2, {.time_limit = std::chrono::hours(1)});
  auto outcomes = OnEveryDevice(rendezvous, 2, [&](int64_t d) -> Result<> {
    if (d == 0) return {};
    return ReceiveNumber(rendezvous, 0, 1).transform([](int32_t) {});
  });
  EXPECT_EQ(outcomes[1].error().code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(outcomes[1].error().message().find("device 0 has finished"), std::string::npos);

  outcomes = OnEveryDevice(rendezvous, 2, [&](int64_t d) -> Result<> {
    if (d == 1) return {};
    for (int32_t n = 0; n < 100; ++n) KRAFLA_TRY(SendNumber(rendezvous, 0, 1, n));
    return {};
  });
  EXPECT_EQ(outcomes[0].error().code(), StatusCode::kDeadlineExceeded);
}

TEST(Rendezvous, WhatIsReceivedMustHaveTheSizeThatWasSent) {
  Rendezvous rendezvous(2, {});
  auto outcomes = OnEveryDevice(rendezvous, 2, [&](int64_t d) -> Result<> {
    if (d == 0) return SendNumber(rendezvous, 0, 1, 5);
    int64_t number = 0;
    std::byte* leaf[] = {reinterpret_cast<std::byte*>(&number)};
    const int64_t size[] = {8};
    return rendezvous.Receive({1, 0, 1}, leaf, size, "recv-done 'r'");
  });
  EXPECT_EQ(outcomes[1].error().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace krafla
