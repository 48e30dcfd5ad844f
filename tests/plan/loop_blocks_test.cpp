// SPDX-License-Identifier: Apache-2.0
// Loops of unknown counts inside of a loop, cut into blocks: what runs block after block, as the blocks say, launches
// what the steps launch.
#include "plan/loop_blocks.h"

#include <gtest/gtest.h>

#include "step_lists.h"

namespace krafla::plan {
namespace {

// A loop whose condition is the kernel `condition` and whose predicate is called by the same number.
WhileStep Loop(std::optional<int64_t> turns, int condition, std::unique_ptr<StepList> body) {
  WhileStep out;
  out.condition = ListOf(LaunchOf(condition)), out.body = std::move(body);
  out.predicate.allocation = condition;
  out.trip_count = turns;
  return out;
}

// The kernels that blocks launch, where predicates are these in turn and all branches are the second.
std::vector<int> Launched(const LoopBlocks& cut, std::vector<bool> predicates) {
  std::vector<int> out;
  std::size_t asked = 0;
  for (int block = 0; block < static_cast<int>(cut.blocks.size()) && out.size() < 100;) {
    const LoopBlock& b = cut.blocks[static_cast<std::size_t>(block)];
    for (const Step* step : b.steps)
      if (const auto* launch = std::get_if<LaunchStep>(step)) out.push_back(launch->kernel);
    if (const auto* jump = std::get_if<LoopBlock::Jump>(&b.end)) {
      block = jump->next;
    } else if (const auto* test = std::get_if<LoopBlock::Test>(&b.end)) {
      EXPECT_EQ(out.back(), test->predicate.allocation);
      block = asked < predicates.size() && predicates[asked++] ? test->next_if_true : test->next_if_false;
    } else {
      block = std::get<LoopBlock::Choice>(b.end).next[1];
    }
  }
  return out;
}

TEST(LoopBlocks, LoopsBranchesAndCallsGoOnAsTheyDo) {
  // 0? { 1; call { 2? { 3 } }; 4? { 5 }; 6; branches { 7 } or { 8? { 9 }; 10 }; 3 times 11? { 12 } }
  ProgramPlan plan;
  plan.callees.push_back(std::move(*ListOf(Loop({}, 2, ListOf(LaunchOf(3))))));
  ConditionalStep branches;
  branches.branches.push_back(ListOf(LaunchOf(7)));
  branches.branches.push_back(ListOf(Loop({}, 8, ListOf(LaunchOf(9))), LaunchOf(10)));
  const WhileStep loop = Loop(2, 0,
                              ListOf(LaunchOf(1), CallOf(0), Loop({}, 4, ListOf(LaunchOf(5))), LaunchOf(6),
                                     std::move(branches), Loop(3, 11, ListOf(LaunchOf(12)))));
  UncountedLoops uncounted(plan);
  EXPECT_TRUE(uncounted.In(*loop.body));
  EXPECT_FALSE(uncounted.In(*loop.condition));
  EXPECT_FALSE(uncounted.In(loop.body->steps.back()));  // its count is known
  const auto cut = BlocksOf(plan, uncounted, loop, 48);
  ASSERT_TRUE(cut) << cut.error().ToString();
  EXPECT_EQ(Launched(*cut, {true, true, true, false, false, true, false, false}),
            (std::vector<int>{0, 1, 2, 3, 2, 3, 2, 4, 6, 8, 9, 8, 10, 0}));
  EXPECT_EQ(Launched(*cut, {false}), std::vector<int>{0});
  // The counted loop stays a step. Ranges lie within each other or apart, and begin with their conditions.
  ASSERT_EQ(cut->inner.size(), 3u);
  for (const LoopBlocks::Range& range : cut->inner) {
    ASSERT_LT(range.first, range.last);
    const Step& first = *cut->blocks[static_cast<std::size_t>(range.first)].steps[0];
    EXPECT_EQ(std::get<LaunchStep>(first).kernel % 2, 0);
    EXPECT_EQ(std::get<LoopBlock::Jump>(cut->blocks[static_cast<std::size_t>(range.last)].end).next, range.first);
  }
  EXPECT_FALSE(BlocksOf(plan, uncounted, loop, 5));
}

// Loops that begin and end where others do share no block with what runs only once.
TEST(LoopBlocks, LoopsWithinLoopsWithoutOtherSteps) {
  ProgramPlan plan;
  const WhileStep loop = Loop({}, 0, ListOf(Loop(7, 2, ListOf(Loop({}, 4, ListOf(LaunchOf(5)))))));
  UncountedLoops uncounted(plan);
  const auto cut = BlocksOf(plan, uncounted, loop, 48);
  ASSERT_TRUE(cut) << cut.error().ToString();
  EXPECT_EQ(Launched(*cut, {true, true, true, true, false, true, false, false, false}),
            (std::vector<int>{0, 2, 4, 5, 4, 5, 4, 2, 4, 2, 0}));
  ASSERT_EQ(cut->inner.size(), 2u);
  EXPECT_LE(cut->inner[0].first, cut->inner[1].first);
  EXPECT_GE(cut->inner[0].last, cut->inner[1].last);
}

}  // namespace
}  // namespace krafla::plan
