// SPDX-License-Identifier: Apache-2.0
#include "plan/rows/row_growth.h"

#include <algorithm>

namespace krafla::plan {
namespace {

constexpr std::size_t kMostBehind = 8;  // launches in between that run behind it

// Whether a launch that does not join may run before all of the chain, as the update of a cache does that stands
// between the scores and the product with the values.
bool MayRunBefore(const ProgramPlan& plan, const RowChain& chain, const LaunchStep& launch, const KernelPlan& kernel) {
  if (!chain.IsIndependent(launch, kernel)) return false;
  const std::vector<int> donated = DonatedTo(plan, launch);
  const auto is_donated = [&](const Slice& s) {
    const Allocation& a = plan.allocations[static_cast<std::size_t>(s.allocation)];
    return a.kind == Allocation::Kind::kArgument && std::ranges::find(donated, a.number) != donated.end();
  };
  return donated.empty() || std::ranges::none_of(chain.members(), [&](const RowChain::Member& m) {
           return std::ranges::any_of(m.launch.bindings, is_donated);
         });
}

// Whether a launch writes what another one touches.
bool WritesFor(const ProgramPlan& plan, const LaunchStep& writer, const LaunchStep& other) {
  const std::vector<Binding>& bindings = plan.kernels[static_cast<std::size_t>(writer.kernel)].bindings;
  for (std::size_t b = 0; b < bindings.size(); ++b)
    if (bindings[b].written && std::ranges::contains(other.bindings, writer.bindings[b].allocation, &Slice::allocation))
      return true;
  return false;
}
bool Meet(const ProgramPlan& plan, const LaunchStep& a, const LaunchStep& b) {
  return WritesFor(plan, a, b) || WritesFor(plan, b, a);
}

// Whether a launch that would run before the chain may run within it, where its reader stands: nothing else needs what
// it writes, and nothing that runs before the chain overwrites what it needs.
bool MayRunWithin(const ProgramPlan& plan, const StepList& list, std::span<const std::size_t> before,
                  std::size_t step) {
  const LaunchStep& launch = *LaunchAt(list, step);
  return DonatedTo(plan, launch).empty() && std::ranges::none_of(before, [&](std::size_t s) {
           const LaunchStep& other = *LaunchAt(list, s);
           return s != step && (WritesFor(plan, launch, other) || (s > step && WritesFor(plan, other, launch)));
         });
}

// Takes launches that would run before the chain into it, where the last member reads what they write.
void AdoptReadRows(const ProgramPlan& plan, const StepList& list, const Growth& growth, RowGroup& group) {
  const std::vector<std::size_t> candidates = group.before;
  for (std::size_t step : candidates) {
    if (!growth.takes(step) || !MayRunWithin(plan, list, group.before, step)) continue;
    const LaunchStep& launch = *LaunchAt(list, step);
    if (group.chain.Adopt(step, launch, plan.kernels[static_cast<std::size_t>(launch.kernel)]))
      std::erase(group.before, step);
  }
}

}  // namespace

const LaunchStep* LaunchAt(const StepList& list, std::size_t step) {
  return step < list.steps.size() ? std::get_if<LaunchStep>(&list.steps[step]) : nullptr;
}

std::vector<int> DonatedTo(const ProgramPlan& plan, const LaunchStep& launch) {
  std::vector<int> out;
  const std::vector<Binding>& bindings = plan.kernels[static_cast<std::size_t>(launch.kernel)].bindings;
  for (std::size_t b = 0; b < bindings.size(); ++b) {
    const Allocation& a = plan.allocations[static_cast<std::size_t>(launch.bindings[b].allocation)];
    if (!bindings[b].written || a.kind != Allocation::Kind::kResult) continue;
    if (const int argument = plan.result_aliases[static_cast<std::size_t>(a.number)]; argument >= 0)
      out.push_back(argument);
  }
  return out;
}

RowGroup GrowGroup(const ProgramPlan& plan, const StepList& list, std::size_t first, const Growth& growth) {
  const LaunchStep& launch = *LaunchAt(list, first);
  const auto kernel_of = [&](const LaunchStep& l) -> const KernelPlan& {
    return plan.kernels[static_cast<std::size_t>(l.kernel)];
  };
  RowGroup out{
      RowChain(first, launch, kernel_of(launch)), {}, {}, {}, first, {}, 0, 0, {}, nullptr, Ungrouped::kGrouped};
  std::vector<std::size_t> between, after;
  for (std::size_t s = first + 1;
       s < list.steps.size() && s - first < kMostSteps && out.chain.members().size() < growth.most; ++s) {
    const LaunchStep* next = LaunchAt(list, s);
    const auto refuse = [&](Ungrouped why) {
      out.why_not_next = why;
      if (next != nullptr) out.next = next->instruction;
    };
    if (next == nullptr) {
      refuse(Ungrouped::kBetween);
      break;
    }
    const KernelPlan& kernel = kernel_of(*next);
    const bool waits = std::ranges::any_of(after, [&](std::size_t a) { return Meet(plan, *next, *LaunchAt(list, a)); });
    if (!waits && MayRunBefore(plan, out.chain, *next, kernel)) {
      between.push_back(s);
      continue;
    }
    if (!DonatedTo(plan, *next).empty()) {
      refuse(Ungrouped::kMemory);
      break;
    }
    if (waits) {
      if (after.size() >= kMostBehind) break;
      after.push_back(s);
      continue;
    }
    // What stands between runs before: nothing that it needs may be the group's, and nothing that the group has so far
    // may depend on the order.
    Ungrouped why = out.chain.Join(s, *next, kernel);
    const bool is_sum =
        why != Ungrouped::kGrouped && growth.is_wide && out.chain.JoinSum(s, *next, kernel) == Ungrouped::kGrouped;
    if (is_sum) why = Ungrouped::kGrouped;
    if (why != Ungrouped::kGrouped) {
      if (out.next == nullptr) refuse(why);
      if (!growth.is_wide || after.size() >= kMostBehind) break;
      after.push_back(s);
      continue;
    }
    for (; out.behind.size() < after.size(); out.behind.push_back(after[out.behind.size()]))
      for (const Slice& slice : LaunchAt(list, after[out.behind.size()])->bindings)
        out.needed_behind.insert(slice.allocation);
    out.before.insert(out.before.end(), between.begin(), between.end());
    between.clear();
    out.last = s;
    if (growth.is_wide && !is_sum) AdoptReadRows(plan, list, growth, out);
  }
  return out;
}

}  // namespace krafla::plan
