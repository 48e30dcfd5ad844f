// SPDX-License-Identifier: Apache-2.0
#include "plan/loop_blocks.h"

#include <algorithm>
#include <utility>

namespace krafla::plan {
namespace {

class BlockCutter {
 public:
  BlockCutter(const ProgramPlan& plan, UncountedLoops& uncounted, std::size_t most)
      : plan_(plan), uncounted_(uncounted), most_(most) {}

  Result<LoopBlocks> Cut(const WhileStep& loop) {
    KRAFLA_TRY(AddLoop(loop));
    // The last block is where the loop goes when it is over, and there is nothing in it; the first range is its own.
    out_.blocks.pop_back();
    out_.inner.erase(out_.inner.begin());
    return std::move(out_);
  }

 private:
  int Last() const { return static_cast<int>(out_.blocks.size()) - 1; }
  LoopBlock& At(int block) { return out_.blocks[static_cast<std::size_t>(block)]; }
  Result<> Open() {
    if (out_.blocks.size() > most_) return Unimplemented("The loop has more than {} blocks of steps.", most_);
    out_.blocks.emplace_back();
    return {};
  }
  // Ends the last block with a jump to a new one.
  Result<> OpenNext() {
    KRAFLA_TRY(Open());
    At(Last() - 1).end = LoopBlock::Jump{Last()};
    return {};
  }

  // Leaves an empty block open, where the steps after the loop go.
  Result<> AddLoop(const WhileStep& loop) {
    // Without a block in front of it the condition is the first of all.
    if (out_.blocks.empty()) KRAFLA_TRY(Open());
    else if (!At(Last()).steps.empty()) KRAFLA_TRY(OpenNext());
    const int condition = Last();
    const std::size_t range = out_.inner.size();
    out_.inner.push_back({condition, condition});
    KRAFLA_TRY(AddSteps(*loop.condition));
    const int test = Last();
    KRAFLA_TRY(Open());
    const int body = Last();
    KRAFLA_TRY(AddSteps(*loop.body));
    At(Last()).end = LoopBlock::Jump{condition};
    out_.inner[range].last = Last();
    KRAFLA_TRY(Open());
    At(test).end = LoopBlock::Test{loop.predicate, body, Last()};
    return {};
  }

  Result<> AddConditional(const ConditionalStep& conditional) {
    const int choice = Last();
    LoopBlock::Choice end{&conditional, {}};
    std::vector<int> lasts;
    for (const auto& branch : conditional.branches) {
      KRAFLA_TRY(Open());
      end.next.push_back(Last());
      KRAFLA_TRY(AddSteps(*branch));
      lasts.push_back(Last());
    }
    KRAFLA_TRY(Open());
    for (const int last : lasts) At(last).end = LoopBlock::Jump{Last()};
    At(choice).end = std::move(end);
    return {};
  }

  Result<> AddSteps(const StepList& list) {
    for (const Step& step : list.steps) {
      if (!uncounted_.In(step)) {
        At(Last()).steps.push_back(&step);
      } else if (const auto* loop = std::get_if<WhileStep>(&step)) {
        KRAFLA_TRY(AddLoop(*loop));
      } else if (const auto* conditional = std::get_if<ConditionalStep>(&step)) {
        KRAFLA_TRY(AddConditional(*conditional));
      } else {
        KRAFLA_TRY(AddSteps(plan_.callees[static_cast<std::size_t>(std::get<CallStep>(step).callee)]));
      }
    }
    return {};
  }

  const ProgramPlan& plan_;
  UncountedLoops& uncounted_;
  const std::size_t most_;
  LoopBlocks out_;
};

}  // namespace

bool UncountedLoops::In(const StepList& list) {
  if (const auto known = known_.find(&list); known != known_.end()) return known->second;
  const bool found = std::ranges::any_of(list.steps, [&](const Step& step) { return In(step); });
  known_.emplace(&list, found);
  return found;
}

bool UncountedLoops::In(const Step& step) {
  if (const auto* loop = std::get_if<WhileStep>(&step))
    return !loop->trip_count || In(*loop->condition) || In(*loop->body);
  if (const auto* conditional = std::get_if<ConditionalStep>(&step))
    return std::ranges::any_of(conditional->branches, [&](const auto& branch) { return In(*branch); });
  const auto* call = std::get_if<CallStep>(&step);
  return call != nullptr && In(plan_.callees[static_cast<std::size_t>(call->callee)]);
}

Result<LoopBlocks> BlocksOf(const ProgramPlan& plan, UncountedLoops& uncounted, const WhileStep& loop,
                            std::size_t most_blocks) {
  return BlockCutter(plan, uncounted, most_blocks).Cut(loop);
}

}  // namespace krafla::plan
