// SPDX-License-Identifier: Apache-2.0
// What the control flow of steps means: loops, conditionals and calls are run here, on every device. The list is a
// plan's StepList, or an executor's own: a struct with `steps`, a vector of variants that hold While<List>,
// Conditional<List>, Call and whatever else the device can do.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>

#include "krafla/status.h"
#include "plan/program_plan.h"

namespace krafla::plan {

// Which of a conditional's branches runs. XLA: an index out of range takes the last one; of a predicate's two, the
// first is for true.
constexpr int64_t BranchOfIndex(int32_t index, int64_t branches) {
  return index >= 0 && index < branches ? index : branches - 1;
}
constexpr int64_t BranchOfPredicate(bool predicate) { return predicate ? 0 : 1; }

// What a device does for a list. It also has a function Run(step) for each other kind of step in the list.
template <typename Device, typename List>
concept RunsSteps = requires(Device device, const Slice& slice, int callee) {
  // Is asked before each step and before each turn of a loop whether the run may go on.
  { device.Check() } -> std::same_as<Result<>>;
  // The predicate that the steps so far have written to `slice`.
  { device.ReadPredicate(slice) } -> std::same_as<Result<bool>>;
  { device.ReadIndex(slice) } -> std::same_as<Result<int32_t>>;
  { device.Callee(callee) } -> std::convertible_to<const List&>;
  // Made for one run of a counted loop, and then called before each turn with the turn's number.
  { device.PaceTurns()(int64_t{}) } -> std::same_as<Result<>>;
  // Device::TryLoop(loop) runs a whole loop its own way and says so, or does nothing and gives false.
};

template <typename List, typename Device>
Result<> RunSteps(const List& list, Device& device);

template <typename List, typename Loop, typename Device>
Result<> RunLoop(const Loop& loop, Device& device) {
  KRAFLA_ASSIGN(const bool has_run, device.TryLoop(loop));
  if (has_run) return {};
  if (loop.trip_count) {
    auto pace = device.PaceTurns();
    for (int64_t turn = 0; turn < *loop.trip_count; ++turn) {
      KRAFLA_TRY(device.Check());
      KRAFLA_TRY(pace(turn));
      KRAFLA_TRY(RunSteps(*loop.body, device));
    }
    return {};
  }
  while (true) {
    KRAFLA_TRY(device.Check());
    KRAFLA_TRY(RunSteps(*loop.condition, device));
    KRAFLA_ASSIGN(const bool goes_on, device.ReadPredicate(loop.predicate));
    if (!goes_on) return {};
    KRAFLA_TRY(RunSteps(*loop.body, device));
  }
}

template <typename List, typename Device>
Result<> RunBranch(const Conditional<List>& conditional, Device& device) {
  int64_t branch = 0;
  if (conditional.index_is_pred) {
    KRAFLA_ASSIGN(const bool predicate, device.ReadPredicate(conditional.index));
    branch = BranchOfPredicate(predicate);
  } else {
    KRAFLA_ASSIGN(const int32_t index, device.ReadIndex(conditional.index));
    branch = BranchOfIndex(index, std::ssize(conditional.branches));
  }
  return RunSteps(*conditional.branches[static_cast<std::size_t>(branch)], device);
}

// Runs the steps one after the other; the first failure ends it.
template <typename List, typename Device>
Result<> RunSteps(const List& list, Device& device) {
  static_assert(RunsSteps<Device, List>);
  const auto run = [&](const auto& step) -> Result<> {
    using StepKind = std::remove_cvref_t<decltype(step)>;
    if constexpr (std::derived_from<StepKind, While<List>>) return RunLoop<List>(step, device);
    else if constexpr (std::derived_from<StepKind, Conditional<List>>) return RunBranch<List>(step, device);
    else if constexpr (std::derived_from<StepKind, Call>) return RunSteps<List>(device.Callee(step.callee), device);
    else return device.Run(step);
  };
  for (const auto& step : list.steps) {
    KRAFLA_TRY(device.Check());
    KRAFLA_TRY(std::visit(run, step));
  }
  return {};
}

// ---- Walks, for code that looks at steps, or changes them, and runs none.

template <typename List>
concept ListOfSteps = requires(List list) { list.steps.begin(); };

// Calls visit(step) for each step of the list and of the lists inside it: a loop's condition before its body, then the
// branches of conditionals. What calls run is not inside: it is the program's, once. `visit` gives a Result<>, or a
// Result<bool> that is false to keep the walk out of the lists inside this step.
template <ListOfSteps List, typename Visit>
Result<> TryForEachStep(List& list, Visit&& visit) {
  const auto go_inside = [&](auto& step) -> Result<> {
    using StepKind = std::remove_cvref_t<decltype(step)>;
    if constexpr (std::derived_from<StepKind, While<std::remove_const_t<List>>>) {
      KRAFLA_TRY(TryForEachStep<List>(*step.condition, visit));
      KRAFLA_TRY(TryForEachStep<List>(*step.body, visit));
    } else if constexpr (std::derived_from<StepKind, Conditional<std::remove_const_t<List>>>) {
      for (auto& branch : step.branches) KRAFLA_TRY(TryForEachStep<List>(*branch, visit));
    }
    return {};
  };
  for (auto& step : list.steps) {
    if constexpr (std::same_as<decltype(visit(step)), Result<>>) {
      KRAFLA_TRY(visit(step));
    } else {
      KRAFLA_ASSIGN(const bool enters, visit(step));
      if (!enters) continue;
    }
    KRAFLA_TRY(std::visit(go_inside, step));
  }
  return {};
}

// The same where `visit` cannot fail: it gives nothing, or the bool.
template <ListOfSteps List, typename Visit>
void ForEachStep(List& list, Visit&& visit) {
  const Result<> walked = TryForEachStep(list, [&](auto& step) -> Result<bool> {
    if constexpr (std::is_void_v<decltype(visit(step))>) return visit(step), true;
    else return visit(step);
  });
  KRAFLA_CHECK(walked.has_value());
}

// Of a whole program: the entry's steps, then those of each computation that is called, once.
template <typename Plan>
concept PlanOfSteps = std::same_as<std::remove_const_t<Plan>, ProgramPlan>;
template <PlanOfSteps Plan, typename Visit>
Result<> TryForEachStep(Plan& plan, Visit&& visit) {
  KRAFLA_TRY(TryForEachStep(plan.steps, visit));
  for (auto& callee : plan.callees) KRAFLA_TRY(TryForEachStep(callee, visit));
  return {};
}
template <PlanOfSteps Plan, typename Visit>
void ForEachStep(Plan& plan, Visit&& visit) {
  ForEachStep(plan.steps, visit);
  for (auto& callee : plan.callees) ForEachStep(callee, visit);
}

// Calls visit for the launch that a step is, or for those of the row group that it is.
template <typename AnyStep, typename Visit>
void ForEachLaunchOf(AnyStep& step, Visit&& visit) {
  if (auto* launch = std::get_if<LaunchStep>(&step)) visit(*launch);
  if (auto* group = std::get_if<RowGroupStep>(&step))
    for (auto& launch : group->launches) visit(launch);
}

// Every launch of the program, those of loops, branches and row groups once.
template <PlanOfSteps Plan, typename Visit>
void ForEachLaunch(Plan& plan, Visit&& visit) {
  ForEachStep(plan, [&](auto& step) { ForEachLaunchOf(step, visit); });
}

}  // namespace krafla::plan
