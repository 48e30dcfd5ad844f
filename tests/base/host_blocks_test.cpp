// SPDX-License-Identifier: Apache-2.0
#include "base/host_blocks.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/system.h"

namespace krafla {
namespace {

class HostBlocks : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "Nothing is kept: the sanitizer would not see the use of a freed block.";
#endif
    DropKeptBlocks();
  }
};

TEST_F(HostBlocks, AreUsedAgain) {
  constexpr std::size_t kSize = std::size_t{1} << 20;
  const uint64_t before = CountHostBlocks().reused;
  const std::byte* first = nullptr;
  for (int i = 0; i < 10; ++i) {
    const AlignedBytes bytes(kSize, false);
    if (i == 0) first = bytes.data();
    EXPECT_EQ(bytes.data(), first);
  }
  EXPECT_EQ(CountHostBlocks().reused - before, 9u);
  EXPECT_EQ(CountHostBlocks().kept_bytes, kSize);
  AlignedBytes larger(kSize * 2, false);
  EXPECT_EQ(CountHostBlocks().reused - before, 9u);
}
TEST_F(HostBlocks, OfSizesAsClose) {
  { const AlignedBytes bytes((std::size_t{1} << 20) + 100, false); }
  const uint64_t before = CountHostBlocks().reused;
  const AlignedBytes bytes((std::size_t{1} << 20) + 5000);
  EXPECT_EQ(CountHostBlocks().reused - before, 1u);
  for (std::byte b : bytes.span()) ASSERT_EQ(b, std::byte{0});
}
TEST_F(HostBlocks, AreBounded) {
  {
    std::vector<AlignedBytes> many;
    for (std::size_t i = 0; i < 200; ++i) many.emplace_back(kKeptBytesFrom, false);
    for (std::size_t i = 0; i < 8; ++i) many.emplace_back(std::size_t{32} << 20, false);
    const AlignedBytes small(kKeptBytesFrom - 1), counted(kCountedHostBytes, false);
  }
  EXPECT_LE(CountHostBlocks().kept_bytes, MostKeptBytes());
  EXPECT_GT(CountHostBlocks().kept_bytes, 0u);
  DropKeptBlocks();
  EXPECT_EQ(CountHostBlocks().kept_bytes, 0u);
}
TEST_F(HostBlocks, GoFromThreadToThread) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 200; ++i) {
        AlignedBytes bytes(kKeptBytesFrom << (i % 4));
        bytes.data()[0] = bytes.data()[bytes.size() - 1] = static_cast<std::byte>(t);
        const AlignedBytes copy = bytes;
        ASSERT_EQ(copy.data()[copy.size() - 1], static_cast<std::byte>(t));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_LE(CountHostBlocks().kept_bytes, MostKeptBytes());
}

// Which costs no bytes that are used: a block has the pages that it fills.
TEST_F(HostBlocks, BeginWithALargePageThatTheyFill) {
  for (const std::size_t size : {os::kLargePageBytes, os::kLargePageBytes * 3 + 64, kCountedHostBytes}) {
    const AlignedBytes bytes(size, false);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % os::kLargePageBytes, 0u);
  }
}

}  // namespace
}  // namespace krafla
