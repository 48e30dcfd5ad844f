// SPDX-License-Identifier: Apache-2.0
// What loops, conditionals and calls mean, on a device that writes down what it is given.
#include "plan/step_runner.h"

#include <gtest/gtest.h>

#include <limits>

#include "plan/plan_check.h"
#include "step_lists.h"

namespace krafla::plan {
namespace {

WhileStep LoopOf(std::optional<int64_t> turns, std::unique_ptr<StepList> condition, std::unique_ptr<StepList> body) {
  WhileStep out;
  out.condition = std::move(condition), out.body = std::move(body);
  out.trip_count = turns;
  return out;
}
ConditionalStep BranchesOf(bool is_pred, int count) {
  ConditionalStep out;
  out.index_is_pred = is_pred;
  for (int b = 0; b < count; ++b) out.branches.push_back(ListOf(LaunchOf(10 + b)));
  return out;
}

class Recorder {
 public:
  std::vector<int> launched;
  int copies = 0;
  std::vector<int64_t> paced;
  std::vector<bool> predicates;  // to be read, the last one first
  int32_t index = 0;
  bool takes_loops = false;
  int checks_left = 1000;
  std::vector<StepList> callees;

  Result<> Run(const AwaitStep&) { return Internal("No collective goes on here."); }
  Result<> Run(const RowGroupStep&) { return Internal("No row group is run here."); }
  Result<> Run(const LaunchStep& launch) {
    launched.push_back(launch.kernel);
    if (launch.kernel == 99) return Internal("Kernel 99 fails.");
    return {};
  }
  Result<> Run(const CopyStep&) {
    ++copies;
    return {};
  }
  Result<> Check() {
    if (checks_left-- > 0) return {};
    return MakeError(StatusCode::kCancelled, "The run was cancelled.");
  }
  Result<bool> TryLoop(const WhileStep&) {
    if (takes_loops) launched.push_back(-1);
    return takes_loops;
  }
  Result<bool> ReadPredicate(const Slice&) {
    const bool out = predicates.back();
    predicates.pop_back();
    return out;
  }
  Result<int32_t> ReadIndex(const Slice&) { return index; }
  const StepList& Callee(int number) const { return callees[static_cast<std::size_t>(number)]; }
  auto PaceTurns() {
    return [this](int64_t turn) -> Result<> {
      paced.push_back(turn);
      return {};
    };
  }
};

using Numbers = std::vector<int>;

TEST(StepRunner, CountedLoopsRunTheirBodyAlone) {
  Recorder device;
  ASSERT_TRUE(RunSteps(*ListOf(LoopOf(3, ListOf(LaunchOf(1)), ListOf(LaunchOf(2), CopyStep{}))), device));
  EXPECT_EQ(device.launched, (Numbers{2, 2, 2}));
  EXPECT_EQ(device.copies, 3);
  EXPECT_EQ(device.paced, (std::vector<int64_t>{0, 1, 2}));
  Recorder none;
  ASSERT_TRUE(RunSteps(*ListOf(LoopOf(0, ListOf(LaunchOf(1)), ListOf(LaunchOf(2)))), none));
  EXPECT_TRUE(none.launched.empty());
}

TEST(StepRunner, OtherLoopsAskBeforeEachTurn) {
  Recorder device;
  device.predicates = {false, true, true};
  ASSERT_TRUE(RunSteps(*ListOf(LoopOf({}, ListOf(LaunchOf(1)), ListOf(LaunchOf(2))), LaunchOf(3)), device));
  EXPECT_EQ(device.launched, (Numbers{1, 2, 1, 2, 1, 3}));
  Recorder own;
  own.takes_loops = true;
  ASSERT_TRUE(RunSteps(*ListOf(LoopOf({}, ListOf(LaunchOf(1)), ListOf(LaunchOf(2))), LaunchOf(3)), own));
  EXPECT_EQ(own.launched, (Numbers{-1, 3}));
}

TEST(StepRunner, IndicesOutOfRangeTakeTheLastBranch) {
  constexpr int32_t kLeast = std::numeric_limits<int32_t>::min(), kMost = std::numeric_limits<int32_t>::max();
  for (const auto& [index, kernel] :
       {std::pair{0, 10}, {1, 11}, {2, 12}, {3, 12}, {-1, 12}, {kLeast, 12}, {kMost, 12}}) {
    Recorder device;
    device.index = index;
    ASSERT_TRUE(RunSteps(*ListOf(BranchesOf(false, 3)), device));
    EXPECT_EQ(device.launched, Numbers{kernel}) << index;
  }
  for (const bool predicate : {false, true}) {
    Recorder device;
    device.predicates = {predicate};
    ASSERT_TRUE(RunSteps(*ListOf(BranchesOf(true, 2)), device));
    EXPECT_EQ(device.launched, Numbers{predicate ? 10 : 11});
  }
}

TEST(StepRunner, CallsRunTheProgramsComputations) {
  Recorder device;
  device.callees.push_back(std::move(*ListOf(LaunchOf(1))));
  device.callees.push_back(std::move(*ListOf(CallOf(0), LaunchOf(2))));
  ASSERT_TRUE(RunSteps(*ListOf(CallOf(1), CallOf(0)), device));
  EXPECT_EQ(device.launched, (Numbers{1, 2, 1}));
}

TEST(StepRunner, TheFirstFailureEndsARun) {
  Recorder device;
  const Result<> failed = RunSteps(*ListOf(LoopOf(5, ListOf(), ListOf(LaunchOf(99))), LaunchOf(1)), device);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code(), StatusCode::kInternal);
  EXPECT_EQ(device.launched, Numbers{99});
  // A loop whose body is empty ends too.
  Recorder limited;
  limited.checks_left = 7;
  const Result<> ended = RunSteps(*ListOf(LoopOf(int64_t{1} << 40, ListOf(), ListOf())), limited);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code(), StatusCode::kCancelled);
}

TEST(StepWalk, VisitsEveryListOnce) {
  ProgramPlan plan;
  plan.callees.push_back(std::move(*ListOf(LaunchOf(7))));
  plan.steps = std::move(*ListOf(LaunchOf(1), LoopOf(4, ListOf(LaunchOf(2)), ListOf(BranchesOf(false, 2), LaunchOf(3))),
                                 CallOf(0), CallOf(0)));
  Numbers launched;
  ForEachLaunch(plan, [&](const LaunchStep& launch) { launched.push_back(launch.kernel); });
  EXPECT_EQ(launched, (Numbers{1, 2, 10, 11, 3, 7}));
  // Lists that `visit` keeps out of.
  launched.clear();
  ForEachStep(plan, [&](const Step& step) {
    if (const auto* launch = std::get_if<LaunchStep>(&step)) launched.push_back(launch->kernel);
    return !std::holds_alternative<WhileStep>(step);
  });
  EXPECT_EQ(launched, (Numbers{1, 7}));
  // An error ends the walk.
  int visited = 0;
  const Result<> failed = TryForEachStep(plan, [&](const Step&) -> Result<> {
    if (++visited == 3) return Internal("The third step fails.");
    return {};
  });
  EXPECT_FALSE(failed);
  EXPECT_EQ(visited, 3);
}

TEST(StepWalk, PlansCallWhatComesBefore) {
  ProgramPlan plan;
  plan.callees.resize(2);
  plan.callees[1] = std::move(*ListOf(CallOf(0)));
  plan.steps = std::move(*ListOf(CallOf(1)));
  EXPECT_TRUE(CheckPlan(plan));
  plan.callees[0] = std::move(*ListOf(CallOf(1)));  // without end
  EXPECT_EQ(CheckPlan(plan).error().code(), StatusCode::kInternal);
  plan.callees[0] = {};
  plan.steps = std::move(*ListOf(CallOf(2)));
  EXPECT_EQ(CheckPlan(plan).error().code(), StatusCode::kInternal);
  // What a call runs is looked at like the rest.
  plan.steps = std::move(*ListOf(CallOf(1)));
  plan.callees[0] = std::move(*ListOf(LaunchOf(3)));
  EXPECT_EQ(CheckPlan(plan).error().code(), StatusCode::kInternal);
  plan.callees[0] = std::move(*ListOf(BranchesOf(false, 0)));
  EXPECT_EQ(CheckPlan(plan).error().code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace krafla::plan
