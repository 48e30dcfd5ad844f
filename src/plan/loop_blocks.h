// SPDX-License-Identifier: Apache-2.0
// A loop with loops inside that turn nobody knows how often, as blocks of steps that go on from one to another: what
// runs a loop as one kernel has to stop now and then, so that the device answers, and to go on where it stopped.
#pragma once

#include <unordered_map>
#include <variant>
#include <vector>

#include "plan/program_plan.h"

namespace krafla::plan {

// What comes after a block. The numbers are of blocks; the number of all blocks: the loop is over. (Not within
// LoopBlock: Clang asks a variant's alternatives for their default values before those of a class within another are
// known.)
struct BlockJump {
  int next = 0;
};
struct BlockTest {
  Slice predicate;  // which the steps have written
  int next_if_true = 0, next_if_false = 0;
};
struct BlockChoice {
  const ConditionalStep* conditional = nullptr;
  std::vector<int> next;  // for each branch
};
struct LoopBlock {
  using Jump = BlockJump;
  using Test = BlockTest;
  using Choice = BlockChoice;
  std::vector<const Step*> steps;  // without loops of unknown counts, also inside of them
  std::variant<Jump, Test, Choice> end;
};

struct LoopBlocks {
  std::vector<LoopBlock> blocks;
  // The blocks of the loops inside that are cut, from the condition's to the last of the body's; by their first, and
  // outer loops before what lies in them.
  struct Range {
    int first = 0, last = 0;
  };
  std::vector<Range> inner;
};

// Which lists have a loop, as deep as it may lie in loops, branches and calls, whose count is not known. Remembers what
// it found of each list.
class UncountedLoops {
 public:
  explicit UncountedLoops(const ProgramPlan& plan) : plan_(plan) {}
  bool In(const StepList& list);
  bool In(const Step& step);  // the step itself, too

 private:
  const ProgramPlan& plan_;
  std::unordered_map<const StepList*, bool> known_;
};

// The blocks of a loop, the first of which computes its condition, also where its count is known. Most go on to the
// next one. Called computations are written out where they hold loops of unknown counts; UNIMPLEMENTED: there are more
// than `most_blocks`.
Result<LoopBlocks> BlocksOf(const ProgramPlan& plan, UncountedLoops& uncounted, const WhileStep& loop,
                            std::size_t most_blocks);

}  // namespace krafla::plan
