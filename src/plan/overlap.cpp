// SPDX-License-Identifier: Apache-2.0
// Parts a collective from what waits for it: it begins where it stands, and ends before the first step that needs its
// result or overwrites its operands. Where next to nothing runs between the two it stays whole.
#include "plan/overlap.h"

#include <algorithm>

#include "plan/module_planner.h"
#include "plan/step_slices.h"

namespace krafla::plan {
namespace {

double StepNs(const ProgramPlan& plan, const Step& step, const OverlapOptions& options) {
  if (const auto* loop = std::get_if<WhileStep>(&step)) return EstimatedNs(*loop->instruction, options);
  if (const auto* conditional = std::get_if<ConditionalStep>(&step))
    return EstimatedNs(*conditional->instruction, options);
  if (const auto* call = std::get_if<CallStep>(&step)) return EstimatedNs(*call->instruction, options);
  if (const auto* copy = std::get_if<CopyStep>(&step))
    return 2 * static_cast<double>(copy->to.size) * options.ns_per_byte;
  const auto* launch = std::get_if<LaunchStep>(&step);
  if (launch == nullptr || MayGoOn(*launch->instruction)) return 0;
  return EstimatedNs(plan.kernels[static_cast<std::size_t>(launch->kernel)], options);
}

bool IsCollective(const ProgramPlan& plan, const Step& step) {
  const auto* launch = std::get_if<LaunchStep>(&step);
  if (launch == nullptr) return false;
  const auto* host = std::get_if<HostKernel>(&plan.kernels[static_cast<std::size_t>(launch->kernel)].body);
  return host != nullptr && MayGoOn(*host->instruction);
}

}  // namespace

void ModulePlanner::OverlapExchanges(Scope& scope, std::size_t begin, std::vector<int> ends, StepList& steps) {
  const OverlapOptions& options = options_.fusion.overlap;
  const std::size_t count = steps.steps.size() - begin;
  const std::span<Step> list(steps.steps.data() + begin, count);
  if (std::ranges::none_of(list, [&](const Step& s) { return IsCollective(plan_, s); })) return;
  std::vector<std::size_t> end_of(count, count);  // of each collective
  std::vector<double> ns(count + 1, 0);           // of the steps before each
  OpenSlices open(plan_, OpenSlices::Arena::kIsOpen);
  std::vector<std::vector<TouchedSlice>> slices(count);  // of collectives
  for (std::size_t s = 0; s < count; ++s) {
    std::vector<TouchedSlice> touched = SlicesOf(plan_, list[s]);
    for (const int disturbed : open.DisturbedBy(touched)) {
      end_of[static_cast<std::size_t>(disturbed)] = s;
      open.Remove(disturbed);
    }
    ns[s + 1] = ns[s] + StepNs(plan_, list[s], options);
    if (!IsCollective(plan_, list[s])) continue;
    slices[s] = touched;
    open.Add(static_cast<int>(s), std::move(touched));
  }
  std::vector<std::vector<AwaitStep>> awaited(count + 1);  // before which step
  bool any = false;
  for (std::size_t s = 0; s < count; ++s) {
    const std::size_t end = end_of[s];
    if (!IsCollective(plan_, list[s]) || ns[end] - ns[s + 1] < options.least_hidden_ns) continue;
    auto& launch = std::get<LaunchStep>(list[s]);
    launch.exchange = plan_.exchanges++;
    awaited[end].push_back({launch.exchange, launch.instruction});
    // What it works on stays as long as it goes on.
    for (const TouchedSlice& t : slices[s]) {
      auto& [first, last] = touched_[static_cast<std::size_t>(t.slice.allocation)];
      last = std::max(last, ends[end - 1]);
    }
    any = true;
  }
  if (!any) return;
  std::vector<Step> old(std::make_move_iterator(steps.steps.begin() + static_cast<std::ptrdiff_t>(begin)),
                        std::make_move_iterator(steps.steps.end()));
  steps.steps.resize(begin);
  std::unordered_map<std::size_t, int> launched;
  for (std::size_t s = 0; s <= count; ++s) {
    for (const AwaitStep& await : awaited[s]) steps.steps.emplace_back(await);
    if (s == count) break;
    if (const auto at = scope.launched.find(begin + s); at != scope.launched.end())
      launched.emplace(steps.steps.size(), at->second);
    steps.steps.push_back(std::move(old[s]));
  }
  scope.launched = std::move(launched);
}

}  // namespace krafla::plan
