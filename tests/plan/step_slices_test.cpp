// SPDX-License-Identifier: Apache-2.0
#include "plan/step_slices.h"

#include <gtest/gtest.h>

namespace krafla::plan {
namespace {

using AllocationKind = Allocation::Kind;

// Two temporaries in the same bytes of the arena, an argument, and a result that lies in its place.
ProgramPlan PlanOfFour() {
  ProgramPlan plan;
  plan.allocations.resize(4);
  plan.allocations[0].kind = plan.allocations[1].kind = AllocationKind::kArena;
  plan.allocations[2].kind = AllocationKind::kArgument;
  plan.allocations[3].kind = AllocationKind::kResult;
  for (Allocation& a : plan.allocations) a.size = 64, a.offset = 0, a.number = 0;
  plan.arguments = plan.results = {Shape::MakeArray(ElementType::kF32, std::vector<int64_t>{16}).value()};
  plan.result_aliases = {0};
  return plan;
}
TouchedSlice Reads(int allocation, int64_t offset, int64_t size) { return {{allocation, offset, size}, false}; }
TouchedSlice Writes(int allocation, int64_t offset, int64_t size) { return {{allocation, offset, size}, true}; }

TEST(OpenSlices, ReadsDisturbWritesAlone) {
  const ProgramPlan plan = PlanOfFour();
  OpenSlices open(plan, OpenSlices::Arena::kIsOpen);
  open.Add(0, {Reads(2, 0, 32)});
  open.Add(1, {Writes(0, 16, 16)});
  EXPECT_EQ(open.DisturbedBy({Reads(2, 0, 64), Reads(0, 0, 16), Writes(0, 32, 8)}), std::vector<int>());
  EXPECT_EQ(open.DisturbedBy({Reads(0, 0, 17)}), std::vector<int>{1});
  EXPECT_EQ(open.DisturbedBy({Writes(2, 31, 1), Writes(0, 20, 1)}), (std::vector<int>{0, 1}));
  EXPECT_TRUE(open.Remove(1));
  EXPECT_FALSE(open.Remove(1));
  EXPECT_EQ(open.DisturbedBy({Reads(0, 0, 64)}), std::vector<int>());
  EXPECT_EQ(open.First(), 0);
}

TEST(OpenSlices, LongSlicesAreFoundBehindShortOnes) {
  const ProgramPlan plan = PlanOfFour();
  OpenSlices open(plan, OpenSlices::Arena::kIsOpen);
  open.Add(0, {Writes(0, 0, 60)});
  open.Add(1, {Writes(0, 8, 4)});
  EXPECT_EQ(open.DisturbedBy({Reads(0, 56, 4)}), std::vector<int>{0});
}

TEST(OpenSlices, TemporariesShareBytesOnceTheArenaIsPacked) {
  const ProgramPlan plan = PlanOfFour();
  for (const auto arena : {OpenSlices::Arena::kIsOpen, OpenSlices::Arena::kIsPacked}) {
    OpenSlices open(plan, arena);
    open.Add(7, {Reads(0, 0, 64)});
    EXPECT_EQ(open.DisturbedBy({Writes(1, 4, 4)}).size(), arena == OpenSlices::Arena::kIsPacked ? 1u : 0u);
  }
}

TEST(OpenSlices, ResultsLieInTheArgumentsPlace) {
  const ProgramPlan plan = PlanOfFour();
  OpenSlices open(plan, OpenSlices::Arena::kIsPacked);
  open.Add(3, {Reads(2, 0, 64)});
  EXPECT_EQ(open.DisturbedBy({Writes(3, 0, 4)}), std::vector<int>{3});
}

}  // namespace
}  // namespace krafla::plan
