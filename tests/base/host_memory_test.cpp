// SPDX-License-Identifier: Apache-2.0
// Memory is refused before it is taken: also beside blocks that the system has promised and not given yet.
#include "base/host_memory.h"

#include <gtest/gtest.h>

#include <optional>

namespace krafla {
namespace {

// The largest block, of an eighth of the machine and its multiples, that there is room for; of those blocks no byte is
// touched.
uint64_t MostRoom() {
  for (uint64_t eighths = 7; eighths > 0; --eighths)
    if (HostHasRoom(HostMemoryLimit() / 8 * eighths)) return HostMemoryLimit() / 8 * eighths;
  return 0;
}

class HostMemory : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "The sanitizer writes to its shadow of every block.";
#endif
    most_ = MostRoom();
    if (most_ == 0) GTEST_SKIP() << "The machine has no eighth of its memory left.";
  }
  uint64_t most_ = 0;
};

TEST_F(HostMemory, PromisedBlocksCount) {
  // More than half of what there is, so that a second one does not fit.
  std::optional<AlignedBytes> first(std::in_place, most_, false);
  EXPECT_FALSE(HostHasRoom(most_));
  EXPECT_THROW(AlignedBytes(most_, false), std::bad_alloc);
  EXPECT_THROW(HostVector<std::byte>().reserve(most_), std::bad_alloc);
  // One that moves is the same one.
  AlignedBytes moved = std::move(*first);
  first.reset();
  EXPECT_FALSE(HostHasRoom(most_));
  moved = AlignedBytes();
  EXPECT_TRUE(HostHasRoom(most_));
}

TEST_F(HostMemory, VectorsCountAsBlocksDo) {
  {
    HostVector<uint16_t> vector;
    vector.reserve(most_ / sizeof(uint16_t));
    EXPECT_FALSE(HostHasRoom(most_));
    EXPECT_THROW(AlignedBytes(most_, false), std::bad_alloc);
  }
  EXPECT_TRUE(HostHasRoom(most_));
}

TEST_F(HostMemory, WhatIsRefusedDoesNotCount) {
  for (int i = 0; i < 3; ++i) EXPECT_THROW(AlignedBytes(HostMemoryLimit(), false), std::bad_alloc);
  for (int i = 0; i < 3; ++i) EXPECT_THROW(HostVector<int64_t>().reserve(HostMemoryLimit() / 8), std::bad_alloc);
  EXPECT_TRUE(HostHasRoom(most_));
}

}  // namespace
}  // namespace krafla
