// SPDX-License-Identifier: Apache-2.0
// Finds launches that do not depend on one another, and dots that follow a dot, and makes one launch of them
// (HorizontalKernel).
#include <algorithm>

#include "plan/horizontal.h"
#include "plan/module_planner.h"
#include "plan/step_slices.h"

namespace krafla::plan {
namespace {

constexpr std::size_t kMostLaunches = 8;  // of a kernel: the device's code for each is in it
// Of all parts: functions of many operations, with a register for each value, outweigh a launch (a kernel of Bessel and
// gamma functions spilled 62 values on Intel's compilers, apart they spill 40).
constexpr std::size_t kMostNodes = 200;

}  // namespace

std::optional<LaunchStep> ModulePlanner::Joined(std::span<const LaunchStep* const> launches, bool begins_with_rows) {
  const FusionOptions& fusion = options_.fusion;
  std::optional<FusedLaunches> made =
      FuseLaunches(plan_, launches, std::min(fusion.limits.bindings, fusion.buffer_limit));
  if (!made) return std::nullopt;
  std::get<HorizontalKernel>(made->kernel.body).begins_with_rows = begins_with_rows;
  LaunchStep out;
  out.kernel = KernelNumber(std::move(made->kernel));
  out.bindings = std::move(made->bindings);
  has_unused_kernels_ = true;
  const auto [known, is_new] = takes_horizontal_.try_emplace(out.kernel, false);
  if (is_new) known->second = options_.takes_horizontal(plan_.kernels[static_cast<std::size_t>(out.kernel)]);
  return known->second ? std::optional(std::move(out)) : std::nullopt;
}

// The launch `first`, and behind it those that go with it, which could as well run before all that stands between.
// `asks`: of those only the ones that the device takes together with the ones before.
std::vector<std::size_t> ModulePlanner::LaunchesWith(const StepList& steps, std::size_t first,
                                                     const std::vector<bool>& gone, bool asks) {
  std::vector<std::size_t> out = {first};
  const auto at = [&](std::size_t s) { return std::get_if<LaunchStep>(&steps.steps[s]); };
  std::vector<const LaunchStep*> launches = {at(first)};
  OpenSlices open(plan_, OpenSlices::Arena::kIsOpen);
  std::size_t added = first, nodes = NodesOf(plan_, *launches.front());
  for (std::size_t s = first + 1; s < std::min(steps.steps.size(), first + kMostStepsApart); ++s) {
    // What a collective works on is touched until it is awaited.
    if (std::holds_alternative<AwaitStep>(steps.steps[s])) break;
    const LaunchStep* launch = at(s);
    if (gone[s] || launch == nullptr ||
        !AreWorthOne(plan_, *launches.front(), *launch, options_.fusion.limits.sibling_elements))
      continue;
    const std::size_t with = nodes + NodesOf(plan_, *launch);
    if (with > kMostNodes) continue;
    for (; added < s; ++added)
      if (!gone[added]) open.Add(static_cast<int>(added), SlicesOf(plan_, steps.steps[added]));
    // A dot may follow one of them, if all others leave it alone.
    const std::vector<int> disturbed = open.DisturbedBy(SlicesOf(plan_, steps.steps[s]));
    if (disturbed.size() > 1) continue;
    if (!disturbed.empty()) {
      const auto followed = static_cast<std::size_t>(disturbed.front());
      if (!std::ranges::contains(out, followed) || !Follows(plan_, *launch, *at(followed))) continue;
    }
    launches.push_back(launch);
    if (!asks || Joined(launches)) {
      out.push_back(s);
      nodes = with;
    } else {
      launches.pop_back();
    }
    if (out.size() == kMostLaunches) break;
  }
  return out;
}

std::unordered_map<const Instruction*, int> ModulePlanner::LaunchTimes(const Scope& scope, std::size_t begin,
                                                                       const StepList& steps) {
  std::unordered_map<const Instruction*, int> out;
  for (std::size_t s = begin; s < steps.steps.size(); ++s) {
    const auto* launch = std::get_if<LaunchStep>(&steps.steps[s]);
    const auto time = scope.launched.find(s);
    if (launch == nullptr || time == scope.launched.end()) continue;
    const auto [known, is_new] = out.try_emplace(launch->instruction, time->second);
    if (!is_new) known->second = std::min(known->second, time->second);
  }
  return out;
}

void ModulePlanner::FuseHorizontally(const std::unordered_map<const Instruction*, int>& times, double least_bytes,
                                     std::size_t begin, StepList& steps) {
  std::vector<bool> gone(steps.steps.size());
  for (std::size_t s = begin; s < steps.steps.size(); ++s) {
    const auto* first = std::get_if<LaunchStep>(&steps.steps[s]);
    if (gone[s] || first == nullptr || !times.contains(first->instruction)) continue;
    std::vector<std::size_t> members = LaunchesWith(steps, s, gone, /*asks=*/false);
    if (members.size() < 2) continue;
    std::vector<const LaunchStep*> launches;
    const auto collect = [&] {
      launches.clear();
      for (std::size_t m : members) launches.push_back(&std::get<LaunchStep>(steps.steps[m]));
    };
    collect();
    double bytes = 0;
    for (const LaunchStep* launch : launches) bytes += plan_.kernels[static_cast<std::size_t>(launch->kernel)].bytes;
    if (bytes < least_bytes) continue;
    std::optional<LaunchStep> joined = Joined(launches);
    if (!joined) {
      members = LaunchesWith(steps, s, gone, /*asks=*/true);
      if (members.size() < 2) continue;
      collect();
      joined = Joined(launches);
    }
    LaunchStep fused = std::move(*joined);
    fused.instruction = launches.back()->instruction;
    for (const LaunchStep* launch : launches) fused.instruction_count += launch->instruction_count;
    if (PlanLog* log = options_.fusion.log; log != nullptr)
      for (const LaunchStep* launch : launches) log->horizontal[fused.instruction].push_back(launch->instruction);
    // What the later ones make is alive from here on.
    const int now = times.at(first->instruction);
    for (const Slice& slice : fused.bindings) {
      auto& [from, last] = touched_[static_cast<std::size_t>(slice.allocation)];
      from = std::min(from, now), last = std::max(last, now);
    }
    for (std::size_t m : members) gone[m] = m != s;
    steps.steps[s] = std::move(fused);
  }
  StepList out;
  for (std::size_t s = 0; s < steps.steps.size(); ++s)
    if (!gone[s]) out.steps.push_back(std::move(steps.steps[s]));
  steps = std::move(out);
}

}  // namespace krafla::plan
