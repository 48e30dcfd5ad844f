// SPDX-License-Identifier: Apache-2.0
// Makes the groups before any are merged, and finds what they read.
#include <algorithm>
#include <utility>

#include "base/work.h"
#include "plan/families/dot_operands.h"
#include "plan/fusion/fusion_planner.h"

namespace krafla::plan {

const Instruction* FusionGroup::update() const {
  if (kind == Kind::kDynamicUpdate || kind == Kind::kScatter) return heroes.empty() ? nullptr : heroes[0];
  if (kind == Kind::kDot && !roots.empty() && roots[0]->opcode() == Opcode::kDynamicUpdateSlice) return roots[0];
  return nullptr;
}

bool FusionPlan::HasBuffer(const ValueRef& v) const {
  const Instruction& i = *v.instruction;
  if (i.opcode() == Opcode::kConstant) return i.shape().element_count() != 1;
  // The ids of the device lie in memory as arguments do.
  if (IsOneOf(i.opcode(), {Opcode::kParameter, Opcode::kReplicaId, Opcode::kPartitionId})) return true;
  return kept.contains(&i);
}

Result<FusionPlan> PlanFusion(const Computation& computation, const FusionOptions& options, EffectFacts* effects) {
  EffectFacts own;
  return FusionPlanner(computation, options, effects != nullptr ? *effects : own).Run();
}

Result<FusionPlan> FusionPlanner::Run() {
  if (options_.log != nullptr) options_.log->is_fused = options_.fuse;
  plan_.side_by_side = options_.side_by_side;
  Classify();
  DecideKept();
  MakeGroups();
  if (options_.fuse) {
    if (options_.reduce_regions) MergeReduceRegions();
    if (options_.dot_epilogues) MergeEpilogues();
    if (options_.multi_output) MergeSiblings();
  }
  KRAFLA_TRY(OrderGroups());
  return std::move(plan_);
}

void FusionPlanner::MakeGroups() {
  const Instruction* before = nullptr;
  for (const auto& owned : computation_.instructions()) {
    const Instruction* i = owned.get();
    if (!plan_.kept.contains(i)) continue;
    if (effects_.KeepsItsPlace(*i)) before_[i] = std::exchange(before, i);
    FusionGroup g;
    if (class_[Index(i)] == Class::kHero) {
      g.kind = hero_kind_[Index(i)];
      g.heroes = {i};
    } else {
      g.kind = Kind::kLoop;
      g.roots = {i};
    }
    group_of_[Index(i)] = static_cast<int>(groups_.size());
    groups_.push_back(std::move(g));
  }
  graph_.emplace(groups_.size());
  inputs_.resize(groups_.size());
  values_.resize(groups_.size());
  for (std::size_t g = 0; g < groups_.size(); ++g) FindReads(g);
  for (std::size_t g = 0; g < groups_.size(); ++g)
    for (const Instruction* i : inputs_[g]) graph_->AddReader(GroupOf(i), static_cast<int>(g));
}

void FusionPlanner::FindReads(std::size_t g) {
  std::vector<const Instruction*>& made = inputs_[g];
  std::vector<ValueRef>& values = values_[g];
  made.clear(), values.clear();
  std::vector<ValueRef> stack;
  std::unordered_set<ValueRef, ValueRefHash> seen;
  std::unordered_set<const Instruction*> own(groups_[g].heroes.begin(), groups_[g].heroes.end());
  own.insert(groups_[g].roots.begin(), groups_[g].roots.end());
  auto push = [&](const Instruction* o) {
    for (int64_t leaf = 0; leaf < o->shape().leaf_count(); ++leaf) stack.push_back({o, static_cast<int>(leaf)});
  };
  auto push_operands = [&](const Instruction* i) {
    if (auto it = before_.find(i); it != before_.end() && it->second != nullptr) made.push_back(it->second);
    for (const Instruction* before : i->control_predecessors())
      if (plan_.kept.contains(before)) made.push_back(before);
    if (class_[Index(i)] == Class::kHero && i->opcode() == Opcode::kDot && hero_kind_[Index(i)] == Kind::kDot) {
      for (const ValueRef& o : DotBases(*i)) stack.push_back(o);
      return;
    }
    for (const Instruction* o : i->operands()) push(o);
  };
  for (const Instruction* i : groups_[g].heroes) push_operands(i);
  for (const Instruction* i : groups_[g].roots) push_operands(i);
  while (!stack.empty()) {
    const ValueRef v = ResolveValue(stack.back(), true);
    stack.pop_back();
    const Instruction* i = v.instruction;
    if (own.contains(i) || !seen.insert(v).second) continue;
    const bool kept = plan_.kept.contains(i);
    if (kept) made.push_back(i);
    if (kept || plan_.HasBuffer(v)) {
      if (LeafShape(v).IsArray()) values.push_back(v);
    } else {
      push_operands(i);
    }
  }
  std::ranges::sort(made, {}, &Instruction::id);
  made.erase(std::unique(made.begin(), made.end()), made.end());
  std::erase_if(made, [&](const Instruction* i) { return own.contains(i); });
}

void FusionPlanner::FindInternal(FusionGroup& g) const {
  g.internal.clear();
  std::unordered_set<const Instruction*> own(g.heroes.begin(), g.heroes.end());
  own.insert(g.roots.begin(), g.roots.end());
  for (const Instruction* i : own)
    if (!ReadOutside(i, own)) g.internal.insert(i);
}

bool FusionPlanner::ReadOutside(const Instruction* i, const std::unordered_set<const Instruction*>& own) const {
  // A dot reads through views, also through those that have a buffer of their own.
  if (const auto dots = dots_of_.find(i); dots != dots_of_.end())
    for (const Instruction* dot : dots->second)
      if (!own.contains(dot)) return true;
  std::vector<const Instruction*> stack = {i};
  std::unordered_set<const Instruction*> seen;
  while (!stack.empty()) {
    const Instruction* at = stack.back();
    stack.pop_back();
    if (at == computation_.root()) return true;
    for (const Instruction* user : at->users()) {
      CountWork(1);
      if (own.contains(user) || !seen.insert(user).second) continue;
      if (plan_.kept.contains(user)) return true;
      stack.push_back(user);
    }
  }
  return false;
}

}  // namespace krafla::plan
