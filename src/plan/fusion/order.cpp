// SPDX-License-Identifier: Apache-2.0
// Puts the kernels into the order in which they run.
#include <algorithm>
#include <set>
#include <utility>

#include "plan/fusion/fusion_planner.h"
#include "plan/overlap.h"

namespace krafla::plan {

FusionPlanner::Overwrites FusionPlanner::FindOverwrites() const {
  Overwrites out{{}, std::vector<std::vector<int>>(groups_.size()), std::vector<std::vector<int>>(groups_.size())};
  std::unordered_map<ValueRef, int, ValueRefHash> numbers;
  const auto writes = [&](int g, const ValueRef& value) {
    const auto [at, is_new] = numbers.try_emplace(value, static_cast<int>(out.values.size()));
    if (is_new) out.values.emplace_back();
    out.values[static_cast<std::size_t>(at->second)].writers.push_back(g);
    out.written[static_cast<std::size_t>(g)].push_back(at->second);
  };
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (const Instruction* update = groups_[g].update())
      writes(static_cast<int>(g), ResolveValue({update->operand(0), 0}, true));
  }
  ForEachNextState([&](const ValueRef& state, const ValueRef& made) {
    const int g = GroupOf(made.instruction);
    if (g < 0) return;
    // A collective of the state cannot write in its place, so that it need not wait for others that read it.
    if (GoesOn(static_cast<std::size_t>(g)) && std::ranges::contains(values_[static_cast<std::size_t>(g)], state))
      return;
    writes(g, state);
  });
  if (out.values.empty()) return out;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].heroes.empty() && groups_[g].roots.empty()) continue;
    for (const ValueRef& read : values_[g]) {
      const auto found = numbers.find(read);
      if (found == numbers.end()) continue;
      out.read[g].push_back(found->second);
      ++out.values[static_cast<std::size_t>(found->second)].readers;
    }
    std::ranges::sort(out.read[g]);
  }
  return out;
}

bool FusionPlanner::Overwrites::MayRun(int g) const {
  return std::ranges::all_of(written[static_cast<std::size_t>(g)], [&](int v) {
    const int own = std::ranges::binary_search(read[static_cast<std::size_t>(g)], v) ? 1 : 0;
    return values[static_cast<std::size_t>(v)].readers <= own;
  });
}

bool FusionPlanner::GoesOn(std::size_t g) const {
  return options_.overlap.enabled && groups_[g].kind == Kind::kHost && !groups_[g].heroes.empty() &&
         MayGoOn(*groups_[g].heroes[0]);
}

// Which collectives go on while other groups run, and what they and the others take. Where there are none, all groups
// are alike.
std::vector<ReadyGroups::Facts> FusionPlanner::FactsOfGroups() const {
  std::vector<ReadyGroups::Facts> out(groups_.size());
  const auto members = [&](const FusionGroup& g, auto visit) {
    for (const Instruction* i : g.heroes) visit(*i);
    for (const Instruction* i : g.roots) visit(*i);
  };
  std::vector<int> before;  // groups that collectives come after
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    // A group stands where its last member stands.
    members(groups_[g], [&](const Instruction& i) { out[g].place = std::max(out[g].place, position_[Index(&i)]); });
    out[g].goes_on = GoesOn(g);
    if (out[g].goes_on) before.push_back(static_cast<int>(g));
  }
  if (before.empty()) return out;
  std::vector<bool> seen(groups_.size());
  while (!before.empty()) {
    const auto g = static_cast<std::size_t>(before.back());
    before.pop_back();
    if (seen[g]) continue;
    seen[g] = true;
    for (const Instruction* i : inputs_[g])
      if (GroupOf(i) >= 0) before.push_back(GroupOf(i));
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    out[g].is_waited_for = seen[g];
    if (out[g].goes_on) out[g].ns = ExchangeNs(*groups_[g].heroes[0], options_.overlap);
    else members(groups_[g], [&](const Instruction& i) { out[g].ns += EstimatedNs(i, options_.overlap); });
  }
  return out;
}

Result<> FusionPlanner::OrderGroups() {
  std::vector<int> waiting(groups_.size(), 0);
  const std::vector<ReadyGroups::Facts> facts = FactsOfGroups();
  ReadyGroups ready(facts);
  std::set<std::pair<int, int>> held;  // (place, group): ready, but others still read what it overwrites
  Overwrites overwrites = FindOverwrites();
  const auto add = [&](int g) {
    double begin_ns = 0;
    for (const ValueRef& v : values_[static_cast<std::size_t>(g)]) {
      const int maker = GroupOf(v.instruction);
      if (maker >= 0 && facts[static_cast<std::size_t>(maker)].goes_on)
        begin_ns = std::max(begin_ns, ready.EndOf(maker));
    }
    ready.Add(g, begin_ns);
  };
  const auto place = [&](int g) { return facts[static_cast<std::size_t>(g)].place; };
  const auto make_ready = [&](int g) {
    if (overwrites.MayRun(g)) add(g);
    else held.emplace(place(g), g);
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
  while (!ready.IsEmpty() || !held.empty()) {
    int g;
    if (!ready.IsEmpty()) {
      g = ready.Take();
    } else {
      g = held.begin()->second;
      held.erase(held.begin());
    }
    for (int r : graph_->readers(g))
      if (--waiting[static_cast<std::size_t>(r)] == 0) make_ready(r);
    for (int v : overwrites.read[static_cast<std::size_t>(g)]) {
      Overwrites::Value& value = overwrites.values[static_cast<std::size_t>(v)];
      // The last reader may itself be one that overwrites it.
      if (--value.readers > 1) continue;
      for (int w : value.writers)
        if (auto at = held.find({place(w), w}); at != held.end() && overwrites.MayRun(w)) {
          held.erase(at);
          add(w);
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
