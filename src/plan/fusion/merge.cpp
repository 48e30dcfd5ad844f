// SPDX-License-Identifier: Apache-2.0
// Merges groups: around reductions, behind dots and convolutions, and loops beside each other.
#include <algorithm>
#include <utility>

#include "plan/families/accepts.h"
#include "plan/fusion/fusion_planner.h"
#include "plan/kernel_builder.h"

namespace krafla::plan {

void FusionPlanner::Merge(int a, int b, FusionGroup merged) {
  auto ga = static_cast<std::size_t>(a), gb = static_cast<std::size_t>(b);
  for (const Instruction* i : groups_[gb].heroes) group_of_[Index(i)] = a;
  for (const Instruction* i : groups_[gb].roots) group_of_[Index(i)] = a;
  for (const Instruction* i : inputs_[gb]) graph_->RemoveReader(GroupOf(i), b);
  groups_[ga] = std::move(merged);
  groups_[gb] = FusionGroup();
  inputs_[gb].clear();
  values_[gb].clear();
  FindReads(ga);
  for (const Instruction* i : inputs_[ga])
    if (GroupOf(i) != a) graph_->AddReader(GroupOf(i), a);
  graph_->Merge(a, b);
}

FusionGroup FusionPlanner::Joined(int a, int b) const {
  const FusionGroup& x = groups_[static_cast<std::size_t>(a)];
  const FusionGroup& y = groups_[static_cast<std::size_t>(b)];
  FusionGroup out;
  out.kind = x.kind;
  out.heroes = x.heroes;
  out.heroes.insert(out.heroes.end(), y.heroes.begin(), y.heroes.end());
  out.roots = x.roots;
  out.roots.insert(out.roots.end(), y.roots.begin(), y.roots.end());
  auto by_position = [&](auto* p, auto* q) { return position_[Index(p)] < position_[Index(q)]; };
  std::sort(out.heroes.begin(), out.heroes.end(), by_position);
  std::sort(out.roots.begin(), out.roots.end(), by_position);
  return out;
}

bool FusionPlanner::Build(FusionGroup& g) const {
  Result<BuiltKernel> built = KernelBuilder(plan_, g).Build();
  if (!built || static_cast<int>(built->kernel.bindings.size()) > MostBindings()) return false;
  g.kernel = std::move(*built);
  return true;
}

bool FusionPlanner::IsTooFull(const FusionGroup& g) const {
  std::size_t nodes = g.heroes.size() + g.roots.size();
  double formulas = 0;
  std::unordered_set<KernelId, KernelIdHash> seen;  // values that are made together have one
  const auto add = [&](const Instruction* i) {
    if (!seen.insert(KernelOf(*i)).second) return;
    if (auto size = size_of_.find(KernelOf(*i)); size != size_of_.end())
      nodes += static_cast<std::size_t>(size->second.nodes), formulas += size->second.formulas;
  };
  std::ranges::for_each(g.heroes, add);
  std::ranges::for_each(g.roots, add);
  return std::cmp_greater(nodes, limits_.merged) || formulas > limits_.formulas;
}

bool FusionPlanner::EvaluatesLittleMore(const FusionGroup& g) const {
  std::unordered_map<KernelId, double, KernelIdHash> copies;  // for each member
  double own = 0, total = 0;
  auto evaluations = [&](const Instruction* i) {
    auto it = size_of_.find(KernelOf(*i));
    return it == size_of_.end() ? 1.0 : static_cast<double>(it->second.evaluations + 1);
  };
  for (const Instruction* hero : g.heroes) {
    copies[KernelOf(*hero)] = 1;
    own += evaluations(hero);
  }
  total = own;
  for (auto r = g.roots.rbegin(); r != g.roots.rend(); ++r) {
    double mine = 1;
    if (auto asked = asked_.find(Index(*r)); asked != asked_.end())
      for (const Context& c : asked->second.contexts) {
        auto member = copies.find(c.kernel);
        if (member == copies.end()) continue;
        mine += c.map == MapId::Own() ? member->second - 1 : static_cast<double>(c.copies) * member->second;
      }
    copies[KernelOf(**r)] = mine;
    own += evaluations(*r);
    total += mine * evaluations(*r);
  }
  return total <= 2 * own + static_cast<double>(limits_.evaluations);
}

bool FusionPlanner::Refuse(int a, int b, Unmerged why) const {
  if (options_.log == nullptr) return false;
  const auto member = [&](int g) {
    const FusionGroup& group = groups_[static_cast<std::size_t>(g)];
    return group.roots.empty() ? group.heroes.back() : group.roots.back();
  };
  options_.log->refusals.push_back({member(a), member(b), why});
  return false;
}

void FusionPlanner::RefuseReaders(int group, Unmerged why) const {
  if (options_.log == nullptr) return;
  for (int reader : graph_->readers(group)) Refuse(group, reader, why);
}

bool FusionPlanner::MergeReader(std::size_t n, int reader, int& refused) {
  const int me = static_cast<int>(n);
  const FusionGroup& other = groups_[static_cast<std::size_t>(reader)];
  if (other.kind != Kind::kLoop && other.kind != Kind::kReduce) return Refuse(me, reader, Unmerged::kKind);
  const std::size_t heroes = groups_[n].heroes.size() + other.heroes.size();
  const std::size_t members = heroes + groups_[n].roots.size() + other.roots.size();
  if (heroes > limits_.reductions || members > limits_.members) return Refuse(me, reader, Unmerged::kRegionSize);
  if (refused >= limits_.refusals) return Refuse(me, reader, Unmerged::kTries);
  FusionGroup merged = Joined(me, reader);
  merged.kind = Kind::kReduce;
  if (IsTooFull(merged)) return Refuse(me, reader, Unmerged::kFull);
  if (!RegionFits(merged)) return Refuse(me, reader, Unmerged::kRows);
  if (graph_->PathAround(me, reader)) return Refuse(me, reader, Unmerged::kBetween);
  FindInternal(merged);
  if (!EvaluatesLittleMore(merged)) return ++refused, Refuse(me, reader, Unmerged::kWork);
  if (!Build(merged)) return ++refused, Refuse(me, reader, Unmerged::kNotOneKernel);
  Merge(me, reader, std::move(merged));
  return true;
}

void FusionPlanner::MergeReduceRegions() {
  for (std::size_t n = 0; n < groups_.size(); ++n) {
    bool changed = true;
    int refused = 0;
    while (changed && groups_[n].kind == Kind::kReduce && groups_[n].heroes[0]->opcode() == Opcode::kReduce) {
      changed = false;
      const auto& reading = graph_->readers(static_cast<int>(n));
      std::vector<int> readers(reading.begin(), reading.end());
      std::sort(readers.begin(), readers.end());
      for (int r : readers)
        if (changed = MergeReader(n, r, refused); changed) break;
    }
  }
}

namespace {

// Products may store before they have read all: such a kernel could not update the array in place.
bool ReadsUpdated(const BuiltKernel& built, const ValueRef& array) {
  for (std::size_t b = 0; b < built.values.size(); ++b)
    if (built.values[b] == array && built.kernel.bindings[b].read && !built.kernel.bindings[b].written) return true;
  return false;
}

}  // namespace

bool FusionPlanner::MergeEpilogue(std::size_t n) {
  const int me = static_cast<int>(n);
  if (graph_->readers(me).size() != 1) return RefuseReaders(me, Unmerged::kOthersRead), false;
  int r = *graph_->readers(me).begin();
  const FusionGroup& other = groups_[static_cast<std::size_t>(r)];
  // What is put into an array goes there at once: a row of a cache.
  const bool is_update = other.kind == Kind::kDynamicUpdate && groups_[n].kind == Kind::kDot;
  if (other.kind != Kind::kLoop && !is_update) return Refuse(me, r, Unmerged::kKind);
  if (!is_update && other.roots.size() != 1) return Refuse(me, r, Unmerged::kManyRoots);
  const Instruction* hero = groups_[n].heroes[0];
  const Instruction* last = is_update ? other.heroes[0] : other.roots[0];
  const Instruction* follows = is_update ? last->operand(1) : last;
  if (follows->shape().element_count() != hero->shape().element_count()) return Refuse(me, r, Unmerged::kElementCount);
  std::unordered_set<const Instruction*> own = {hero, last};
  if (ReadOutside(hero, own)) return Refuse(me, r, Unmerged::kOthersRead);
  FusionGroup merged = Joined(me, r);
  if (is_update) merged.heroes = {hero}, merged.roots = {last};
  FindInternal(merged);
  if (!Build(merged)) return Refuse(me, r, Unmerged::kNotOneKernel);
  if (is_update && ReadsUpdated(*merged.kernel, ResolveValue({last->operand(0), 0}, true)))
    return Refuse(me, r, Unmerged::kReadsUpdated);
  Merge(me, r, std::move(merged));
  return true;
}

void FusionPlanner::MergeEpilogues() {
  for (std::size_t n = 0; n < groups_.size(); ++n)
    if (groups_[n].kind == Kind::kDot || groups_[n].kind == Kind::kConvolution) MergeEpilogue(n);
}

bool FusionPlanner::MergeSibling(std::size_t m, std::size_t n) {
  const auto a = static_cast<int>(m), b = static_cast<int>(n);
  const FusionGroup& other = groups_[m];
  const Instruction* root = groups_[n].roots[0];
  if (other.kind != Kind::kLoop || other.roots.empty()) return false;
  if (other.roots.size() >= limits_.sibling_roots) return Refuse(a, b, Unmerged::kManyRoots);
  if (other.roots[0]->shape().dims() != root->shape().dims()) return Refuse(a, b, Unmerged::kDimensions);
  if (root->shape().element_count() > limits_.sibling_elements && !SharesInput(m, n))
    return Refuse(a, b, Unmerged::kNothingShared);
  if (graph_->Reads(a, b) || graph_->PathAround(a, b) || graph_->PathAround(b, a))
    return Refuse(a, b, Unmerged::kBetween);
  FusionGroup merged = Joined(a, b);
  if (IsTooFull(merged)) return Refuse(a, b, Unmerged::kFull);
  FindInternal(merged);
  if (LoopBindings(m, n, merged) > MostBindings()) return Refuse(a, b, Unmerged::kNotOneKernel);
  if (!EvaluatesLittleMore(merged)) return Refuse(a, b, Unmerged::kWork);
  Merge(a, b, std::move(merged));
  return true;
}

void FusionPlanner::MergeSiblings() {
  // Looks at groups nearby that run over the same dimensions and share an input.
  for (std::size_t n = 0; n < groups_.size(); ++n) {
    if (groups_[n].kind != Kind::kLoop || groups_[n].roots.empty()) continue;
    bool merged_away = false;
    for (std::size_t m = n; m-- > 0 && n - m < limits_.sibling_distance && !merged_away;)
      merged_away = MergeSibling(m, n);
    if (!merged_away && n >= limits_.sibling_distance && options_.log != nullptr)
      for (const Instruction* i : inputs_[n])
        if (const auto g = static_cast<std::size_t>(GroupOf(i));
            groups_[g].kind == Kind::kLoop && g + limits_.sibling_distance <= n)
          Refuse(static_cast<int>(g), static_cast<int>(n), Unmerged::kDistance);
  }
}

int FusionPlanner::LoopBindings(std::size_t a, std::size_t b, const FusionGroup& merged) const {
  std::unordered_set<ValueRef, ValueRefHash> read(values_[a].begin(), values_[a].end());
  read.insert(values_[b].begin(), values_[b].end());
  for (const Instruction* root : merged.roots) read.erase({root, 0});
  return static_cast<int>(read.size() + merged.roots.size() - merged.internal.size());
}

bool FusionPlanner::SharesInput(std::size_t a, std::size_t b) const {
  auto x = inputs_[a].begin(), y = inputs_[b].begin();
  while (x != inputs_[a].end() && y != inputs_[b].end()) {
    if (*x == *y && (*x)->shape().IsArray() && (*x)->shape().element_count() > 1) return true;
    if ((*x)->id() < (*y)->id()) ++x;
    else if ((*y)->id() < (*x)->id()) ++y;
    else ++x, ++y;
  }
  return graph_->Reads(static_cast<int>(b), static_cast<int>(a));
}

}  // namespace krafla::plan
