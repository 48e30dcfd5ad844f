// SPDX-License-Identifier: Apache-2.0
// A reduction of few rows in the launch of the products that read what it makes, as the norm before the products of a
// token with a layer's weights: each workgroup reads all of the row anyway, and computes it for itself.
#include <algorithm>
#include <array>

#include "base/checked_math.h"
#include "plan/horizontal.h"
#include "plan/module_planner.h"
#include "plan/step_slices.h"

namespace krafla::plan {
namespace {

constexpr int64_t kMostRows = 4, kMostElementsARow = 16384;

// The binding of the only array that it stores; -1: it is not for each workgroup to compute.
int StoredByRows(const KernelPlan& kernel) {
  const auto* rows = std::get_if<ReduceKernel>(&kernel.body);
  if (rows == nullptr || Product(rows->row_dims) > kMostRows || Product(rows->element_dims) > kMostElementsARow)
    return -1;
  int stored = -1;
  for (std::size_t b = 0; b < kernel.bindings.size(); ++b) {
    if (!kernel.bindings[b].written) continue;
    if (stored >= 0 || kernel.bindings[b].read) return -1;
    stored = static_cast<int>(b);
  }
  return stored >= 0 && kernel.bindings[static_cast<std::size_t>(stored)].element_count <= kMostElementsARow ? stored
                                                                                                             : -1;
}

bool AreProducts(const KernelBody& body) {
  if (std::holds_alternative<DotKernel>(body)) return true;
  const auto* horizontal = std::get_if<HorizontalKernel>(&body);
  return horizontal != nullptr && !horizontal->begins_with_rows &&
         std::ranges::all_of(horizontal->parts,
                             [](const auto& part) { return std::holds_alternative<DotKernel>(part); });
}

bool Touches(const std::vector<TouchedSlice>& touched, int allocation) {
  return std::ranges::any_of(touched, [&](const TouchedSlice& t) { return t.slice.allocation == allocation; });
}

}  // namespace

std::optional<std::size_t> ModulePlanner::ProductOfRows(const std::unordered_map<const Instruction*, int>& times,
                                                        const StepList& steps, std::size_t rows) {
  const auto* launch = std::get_if<LaunchStep>(&steps.steps[rows]);
  if (launch == nullptr || launch->exchange >= 0) return std::nullopt;
  const int stored = StoredByRows(plan_.kernels[static_cast<std::size_t>(launch->kernel)]);
  if (stored < 0) return std::nullopt;
  const int made = launch->bindings[static_cast<std::size_t>(stored)].allocation;
  if (plan_.allocations[static_cast<std::size_t>(made)].kind != Allocation::Kind::kArena) return std::nullopt;

  OpenSlices open(plan_, OpenSlices::Arena::kIsOpen);
  open.Add(0, SlicesOf(plan_, steps.steps[rows]));
  std::size_t s = rows + 1;
  const std::size_t end = std::min(steps.steps.size(), rows + kMostStepsApart);
  while (s < end && !std::holds_alternative<AwaitStep>(steps.steps[s]) &&
         open.DisturbedBy(SlicesOf(plan_, steps.steps[s])).empty())
    ++s;
  if (s == end) return std::nullopt;
  const auto* product = std::get_if<LaunchStep>(&steps.steps[s]);
  if (product == nullptr || product->exchange >= 0 || !times.contains(product->instruction) ||
      !AreProducts(plan_.kernels[static_cast<std::size_t>(product->kernel)].body))
    return std::nullopt;
  // Workgroups read what the rows are made of at any time.
  std::vector<TouchedSlice> written = SlicesOf(plan_, steps.steps[s]);
  std::erase_if(written, [](const TouchedSlice& t) { return !t.written; });
  if (!open.DisturbedBy(written).empty()) return std::nullopt;
  // Launches that became one stand where the first of them stood: others that read the rows may come behind, as late as
  // the last one that did.
  const int last = touched_[static_cast<std::size_t>(made)].second;
  std::size_t behind = 0;
  for (std::size_t later = s + 1; later < steps.steps.size() && behind < kMostStepsApart; ++later) {
    if (Touches(SlicesOf(plan_, steps.steps[later]), made)) return std::nullopt;
    const auto* other = std::get_if<LaunchStep>(&steps.steps[later]);
    const auto known = other == nullptr ? times.end() : times.find(other->instruction);
    if (known != times.end() && known->second > last) ++behind;
  }
  return s;
}

void ModulePlanner::PutRowsIntoProducts(const std::unordered_map<const Instruction*, int>& times, std::size_t begin,
                                        StepList& steps) {
  std::vector<bool> gone(steps.steps.size());
  for (std::size_t s = begin; s < steps.steps.size(); ++s) {
    const std::optional<std::size_t> product = ProductOfRows(times, steps, s);
    if (!product) continue;
    const auto& rows = std::get<LaunchStep>(steps.steps[s]);
    const auto& dots = std::get<LaunchStep>(steps.steps[*product]);
    const std::array<const LaunchStep*, 2> launches = {&rows, &dots};
    std::optional<LaunchStep> joined = Joined(launches, /*begins_with_rows=*/true);
    if (!joined) continue;
    joined->instruction = dots.instruction;
    joined->instruction_count = rows.instruction_count + dots.instruction_count;
    if (PlanLog* log = options_.fusion.log; log != nullptr) {
      std::vector<const Instruction*>& parts = log->horizontal[dots.instruction];
      if (parts.empty()) parts.push_back(dots.instruction);
      parts.insert(parts.begin(), rows.instruction);
    }
    const int now = times.at(dots.instruction);
    for (const Slice& slice : joined->bindings) {
      int& last = touched_[static_cast<std::size_t>(slice.allocation)].second;
      last = std::max(last, now);
    }
    gone[s] = true;
    steps.steps[*product] = std::move(*joined);
  }
  StepList out;
  for (std::size_t s = 0; s < steps.steps.size(); ++s)
    if (!gone[s]) out.steps.push_back(std::move(steps.steps[s]));
  steps = std::move(out);
}

}  // namespace krafla::plan
