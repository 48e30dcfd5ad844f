// SPDX-License-Identifier: Apache-2.0
// How a chain of launches grows in a list of steps.
#pragma once

#include <functional>
#include <vector>

#include "plan/rows/row_group.h"

namespace krafla::plan {

// Null: the step is no launch.
const LaunchStep* LaunchAt(const StepList& list, std::size_t step);

// The arguments in whose memory results lie that a launch writes: others may know that memory by another name.
std::vector<int> DonatedTo(const ProgramPlan& plan, const LaunchStep& launch);

constexpr std::size_t kMostSteps = 32;  // from the first launch of a group to its last one

// How a chain grows.
struct Growth {
  std::size_t most = kMostSteps;  // members
  // Whether it takes sums over its rows, launches beside it as far as `takes` says, and some behind one that reads its
  // results: that one is to run behind the group.
  bool is_wide = false;
  std::function<bool(std::size_t)> takes = {};
};

// The longest chain from a launch on.
RowGroup GrowGroup(const ProgramPlan& plan, const StepList& list, std::size_t first, const Growth& growth);

}  // namespace krafla::plan
