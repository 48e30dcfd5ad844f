// SPDX-License-Identifier: Apache-2.0
// Elements of small blocks in another order.
#include "cpu_fallback/executor/shuffled_blocks.h"

#include "moved_program.h"

namespace krafla {
namespace {

bool IsShuffled(const plan::ElementProgram& program) {
  const auto moves = cpu::MoveLevels::Of(program);
  EXPECT_TRUE(moves);
  return moves && !cpu::ShuffledBlocks::Make(*moves, 8192).empty();
}

TEST(ShuffledBlocks, TransposesOfSmallMatrices) {
  using enum ElementType;
  for (ElementType type : {kU8, kBF16, kF32, kF64, kPred})
    for (const auto& [rows, columns] :
         {std::pair<int64_t, int64_t>{3, 3}, {4, 4}, {4, 6}, {7, 5}, {10, 10}, {2, 3}, {3, 8}})
      for (int64_t count : {1009, 1024, 4000}) {  // a prime, and what blocks divide
        const plan::ElementProgram program = Moved(type, {count, rows, columns}, {0, 2, 1}, 0);
        const bool is_large = rows * columns * count * StorageBytes(type) >= 8192;
        const bool is_tile = (type == kF32 || type == kF64) && rows == 10;
        EXPECT_EQ(IsShuffled(program), is_large && !is_tile);
        CheckLoop(program, Format("{} of {}x{}, {}", count, rows, columns, ElementTypeName(type)));
      }
}

TEST(ShuffledBlocks, PixelsBackwardsAndChannelsInAnotherOrder) {
  using enum ElementType;
  for (ElementType type : {kU8, kBF16, kF32})
    for (unsigned backwards : {2U, 3U, 4U, 7U})
      for (int64_t columns : {50, 256, 999}) {
        const plan::ElementProgram program = Moved(type, {80, columns, 3}, {0, 1, 2}, backwards);
        EXPECT_TRUE(IsShuffled(program)) << columns << " backwards " << backwards;
        CheckLoop(program, Format("pixels of {}, {} columns, backwards {}", ElementTypeName(type), columns, backwards));
      }
  // Planes that lie far apart, in each of which a block's bytes are neighbours.
  for (ElementType type : {kU8, kU16})
    for (int64_t channels : {3, 5}) {
      const plan::ElementProgram program = Moved(type, {90, 77, channels}, {2, 0, 1}, 0);
      // Of five words a vector is transposed at once.
      EXPECT_EQ(IsShuffled(program), type == kU8 || channels == 3) << channels;
      CheckLoop(program, Format("{} planes of {}", channels, ElementTypeName(type)));
    }
  CheckLoop(Moved(kU8, {30, 8, 5, 7}, {0, 3, 1, 2}, 4), "two transposed");
  CheckLoop(Moved(kF32, {6, 30, 4, 6}, {1, 0, 3, 2}, 0), "blocks in another order");
}

// Large transposes are for tiles, long rows for copies.
TEST(ShuffledBlocks, NotOfFarElementsOrLongRows) {
  using enum ElementType;
  EXPECT_FALSE(IsShuffled(Moved(kF32, {300, 200}, {1, 0}, 0)));
  EXPECT_FALSE(IsShuffled(Moved(kF32, {30, 100, 8}, {0, 1, 2}, 2)));
  EXPECT_FALSE(IsShuffled(Moved(kU8, {100, 3, 3}, {0, 2, 1}, 0)));  // too little
  EXPECT_FALSE(IsShuffled(Moved(kF32, {100, 60}, {0, 1}, 2)));      // whole vectors, backwards
}

}  // namespace
}  // namespace krafla
