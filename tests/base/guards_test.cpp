// SPDX-License-Identifier: Apache-2.0
#include "base/guards.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "krafla/aligned_bytes.h"

namespace krafla {
namespace {

#ifndef _WIN32  // no signals to be ended by
// Each in a process of its own: what KRAFLA_GUARD says is read once.
void TouchBeside(const char* guards, std::size_t size, std::ptrdiff_t at) {
  setenv("KRAFLA_GUARD", guards, 1);
  const AlignedBytes bytes(size, false);
  const volatile std::byte seen = bytes.data()[at];
  (void)seen;
  std::exit(0);
}

class GuardsDeathTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "The sanitizer has its own way to end a process.";
#endif
  }
};

constexpr std::size_t kGuardedSize = 5 * 64;

TEST_F(GuardsDeathTest, EndReadsBehindAnArray) {
  EXPECT_EXIT(TouchBeside("behind", kGuardedSize, kGuardedSize), testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(TouchBeside("behind", kGuardedSize, kGuardedSize - 1), testing::ExitedWithCode(0), "");
  // 64 bytes are what an array begins at.
  EXPECT_EXIT(TouchBeside("behind", kGuardedSize - 1, kGuardedSize), testing::KilledBySignal(SIGSEGV), "");
}
TEST_F(GuardsDeathTest, EndReadsBeforeAnArray) {
  EXPECT_EXIT(TouchBeside("before", kGuardedSize, -1), testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(TouchBeside("before", kGuardedSize, 0), testing::ExitedWithCode(0), "");
}

void TouchBetween(int64_t at) {
  std::byte* const block = TakeGuardedBlock(static_cast<std::size_t>(4 * kGuardBytes), 64);
  const GuardedRange arrays[] = {{0, 10}, {2 * kGuardBytes - 3, 5}};
  GuardBetween(block, 4 * kGuardBytes, arrays);
  const volatile std::byte seen = block[at];
  (void)seen;
  ReturnGuardedBlock(block, static_cast<std::size_t>(4 * kGuardBytes));
  std::exit(0);
}
TEST_F(GuardsDeathTest, LieBetweenTheArraysOfABlock) {
  EXPECT_EXIT(TouchBetween(kGuardBytes - 1), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(TouchBetween(kGuardBytes), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(TouchBetween(3 * kGuardBytes - 1), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(TouchBetween(3 * kGuardBytes), testing::KilledBySignal(SIGSEGV), "");
}

TEST(Guards, OfAnotherWordAreRefused) {
  setenv("KRAFLA_GUARD", "above", 1);
  const Result<Guards> guards = GuardsAskedFor();
  unsetenv("KRAFLA_GUARD");
  ASSERT_FALSE(guards.has_value());
  EXPECT_EQ(guards.error().code(), StatusCode::kInvalidArgument);
}
#endif

TEST(Guards, FillWhatWasNeverWritten) {
  std::byte* const block = TakeGuardedBlock(100, 64);
  ASSERT_NE(block, nullptr);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(block[i], std::byte{0xDB});
  ReturnGuardedBlock(block, 100);
}

}  // namespace
}  // namespace krafla
