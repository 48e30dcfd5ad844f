// SPDX-License-Identifier: Apache-2.0
// Puts the kernels into the order in which they run.
#include <algorithm>
#include <set>
#include <utility>

#include "plan/fusion/fusion_planner.h"

namespace krafla::plan {

FusionPlanner::Overwrites FusionPlanner::FindOverwrites() const {
  std::unordered_map<ValueRef, std::vector<int>, ValueRefHash> writers;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].kind != Kind::kDynamicUpdate && groups_[g].kind != Kind::kScatter) continue;
    if (!groups_[g].heroes.empty())
      writers[ResolveValue({groups_[g].heroes[0]->operand(0), 0}, true)].push_back(static_cast<int>(g));
  }
  // In the body of a loop: the values that become the state of the next turn.
  const auto& parameters = computation_.parameters();
  if (parameters.size() == 1 && parameters[0]->shape().IsTuple() &&
      parameters[0]->shape() == computation_.root()->shape()) {
    for (int64_t leaf = 0; leaf < parameters[0]->shape().leaf_count(); ++leaf) {
      const ValueRef made = ResolveValue({computation_.root(), static_cast<int>(leaf)}, true);
      const int g = GroupOf(made.instruction);
      if (g >= 0) writers[{parameters[0], static_cast<int>(leaf)}].push_back(g);
    }
  }
  Overwrites out{std::vector<int>(groups_.size(), 0), std::vector<std::vector<int>>(groups_.size())};
  if (writers.empty()) return out;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].heroes.empty() && groups_[g].roots.empty()) continue;
    for (const ValueRef& read : values_[g]) {
      const auto found = writers.find(read);
      if (found == writers.end()) continue;
      for (int w : found->second) {
        if (w == static_cast<int>(g)) continue;
        out.writers_after[g].push_back(w);
        ++out.readers_before[static_cast<std::size_t>(w)];
      }
    }
  }
  return out;
}

Result<> FusionPlanner::OrderGroups() {
  std::vector<int> waiting(groups_.size(), 0);
  // A group stands where its last member stands; of those that are ready the earliest comes first.
  auto place = [&](int g) {
    int out = 0;
    for (const Instruction* i : groups_[static_cast<std::size_t>(g)].heroes) out = std::max(out, position_[Index(i)]);
    for (const Instruction* i : groups_[static_cast<std::size_t>(g)].roots) out = std::max(out, position_[Index(i)]);
    return out;
  };
  std::vector<std::pair<int, int>> ready;  // (-place, group): a max-heap by that is a min-heap by place
  std::set<std::pair<int, int>> held;      // (place, group): ready, but others still read what it overwrites
  Overwrites overwrites = FindOverwrites();
  const auto make_ready = [&](int g) {
    if (overwrites.readers_before[static_cast<std::size_t>(g)] > 0) {
      held.emplace(place(g), g);
    } else {
      ready.push_back({-place(g), g});
      std::push_heap(ready.begin(), ready.end());
    }
  };
  std::size_t alive = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].heroes.empty() && groups_[g].roots.empty()) continue;
    ++alive;
    std::unordered_set<int> before;
    for (const Instruction* i : inputs_[g]) before.insert(GroupOf(i));
    before.erase(static_cast<int>(g));
    waiting[g] = static_cast<int>(before.size());
    if (before.empty()) make_ready(static_cast<int>(g));
  }
  while (!ready.empty() || !held.empty()) {
    int g;
    if (!ready.empty()) {
      std::pop_heap(ready.begin(), ready.end());
      g = ready.back().second;
      ready.pop_back();
    } else {
      g = held.begin()->second;
      held.erase(held.begin());
    }
    for (int r : graph_->readers(g))
      if (--waiting[static_cast<std::size_t>(r)] == 0) make_ready(r);
    for (int w : overwrites.writers_after[static_cast<std::size_t>(g)]) {
      if (--overwrites.readers_before[static_cast<std::size_t>(w)] > 0) continue;
      if (auto at = held.find({place(w), w}); at != held.end()) {
        held.erase(at);
        ready.push_back({-place(w), w});
        std::push_heap(ready.begin(), ready.end());
      }
    }
    FusionGroup& group = groups_[static_cast<std::size_t>(g)];
    if (!group.kernel) FindInternal(group);
    plan_.groups.push_back(std::move(group));
    --alive;
  }
  if (alive != 0)
    return Internal("The kernels of computation '{}' depend on each other in a cycle.", computation_.name());
  return {};
}

}  // namespace krafla::plan
