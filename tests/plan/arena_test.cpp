// SPDX-License-Identifier: Apache-2.0
#include "plan/arena.h"

#include <gtest/gtest.h>

#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace krafla::plan {
namespace {

// "1000:0-3 500:4-5" are ranges of bytes and steps; answers "offset offset, bytes of largest live set".
std::string Packed(const std::string& text) {
  std::vector<LiveRange> ranges;
  std::istringstream in(text);
  char mark;
  for (LiveRange r; in >> r.size >> mark >> r.first >> mark >> r.last;) ranges.push_back(r);
  const ArenaSize size = PackArena(ranges);
  std::ostringstream out;
  for (const LiveRange& r : ranges) out << r.offset << " ";
  out << "| " << size.bytes << " of " << size.largest_live_set;
  return out.str();
}

TEST(ArenaTest, WhatIsAliveTogetherLiesApart) {
  EXPECT_EQ(Packed("256:0-1 256:1-2"), "0 256 | 512 of 512");
  EXPECT_EQ(Packed("256:0-1 256:2-3"), "0 0 | 256 of 256");
}

TEST(ArenaTest, OffsetsAreAligned) {
  EXPECT_EQ(Packed("1:0-1 1:0-1"), "0 256 | 512 of 512");
  EXPECT_EQ(Packed("0:0-9 300:0-1"), "0 0 | 512 of 512");
}

TEST(ArenaTest, GuardsShareNothing) {
  std::vector<LiveRange> ranges = {{100, 0, 1, 0}, {0, 0, 9, 0}, {kGuardBytes + 1, 2, 3, 0}};
  const ArenaSize behind = PlaceApart(ranges, Guards::kBehind);
  EXPECT_EQ(ranges[0].offset, kGuardBytes - 128);
  EXPECT_EQ(ranges[2].offset, 4 * kGuardBytes - (kGuardBytes + 64));
  EXPECT_EQ(behind.bytes, 5 * kGuardBytes);
  EXPECT_EQ(behind.largest_live_set, kGuardBytes + kArenaAlignment);
  const ArenaSize before = PlaceApart(ranges, Guards::kBefore);
  EXPECT_EQ(ranges[0].offset, 0);
  EXPECT_EQ(ranges[2].offset, 2 * kGuardBytes);
  EXPECT_EQ(before.bytes, 5 * kGuardBytes);
}

TEST(ArenaTest, TheLargestIsPlacedFirst) {
  // The second takes the bottom; the first goes above it, and the third into what the second leaves.
  EXPECT_EQ(Packed("256:0-5 1024:2-3 512:4-5"), "1024 0 0 | 1280 of 1280");
}

TEST(ArenaTest, NoTwoOverlapInSpaceAndTime) {
  std::mt19937 random(7);
  // Few, which are placed by size, and so many alive together that they are placed in the order of time.
  for (const int count : {60, 2500}) {
    std::vector<LiveRange> ranges;
    for (int n = 0; n < count; ++n) {
      const int first = static_cast<int>(random() % 500);
      ranges.push_back({1 + static_cast<int64_t>(random() % 5000), first, first + static_cast<int>(random() % 300), 0});
    }
    const ArenaSize size = PackArena(ranges);
    EXPECT_GE(size.bytes, size.largest_live_set);
    for (std::size_t a = 0; a < ranges.size(); ++a) {
      ASSERT_EQ(ranges[a].offset % kArenaAlignment, 0);
      ASSERT_LE(ranges[a].offset + ranges[a].size, size.bytes);
      for (std::size_t b = 0; b < a; ++b) {
        const bool together = ranges[a].first <= ranges[b].last && ranges[b].first <= ranges[a].last;
        const bool meet = ranges[a].offset < ranges[b].offset + ranges[b].size &&
                          ranges[b].offset < ranges[a].offset + ranges[a].size;
        ASSERT_FALSE(together && meet) << a << " and " << b << " of " << count;
      }
    }
  }
}

}  // namespace
}  // namespace krafla::plan
