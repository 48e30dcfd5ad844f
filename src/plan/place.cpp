// SPDX-License-Identifier: Apache-2.0
// Decides which values share bytes: results are written straight to where they belong, updates are made in place, and
// donated arguments are overwritten.
#include <algorithm>

#include "plan/module_planner.h"

namespace krafla::plan {

namespace {

// Whether the reads of binding `read` and the stores to `written` touch the same element at each point, so that the two
// may share bytes. Executors compute the values of a point before its stores, but they may load a value that is only
// copied as late as they store it: such a value must not be stored elsewhere.
bool SafeInPlace(const KernelPlan& kernel, int read, int written) {
  const auto* loop = std::get_if<LoopKernel>(&kernel.body);
  if (loop == nullptr) return false;
  const auto node = [&](NodeId id) -> const Node& { return loop->program.nodes[static_cast<std::size_t>(id)]; };
  const Store* store = nullptr;
  for (const Store& s : loop->program.stores) {
    if (s.buffer == written) {
      if (store != nullptr || s.mask != kNoNode) return false;
      store = &s;
      continue;
    }
    const Node* source = &node(s.node);
    while ((source->op == NodeOp::kBitcast || source->op == NodeOp::kConvert) && source->operands[0] != kNoNode)
      source = &node(source->operands[0]);
    if ((source->op == NodeOp::kLoad && source->buffer == read) || s.mask != kNoNode) return false;
  }
  if (store == nullptr) return false;
  for (const Node& n : loop->program.nodes)
    if (n.op == NodeOp::kLoad && n.buffer == read && (n.index != store->index || n.storage != store->storage))
      return false;
  return true;
}

}  // namespace

void ModulePlanner::CopyRoots(Scope& scope, std::span<const ValueRef> roots, std::span<const Slice> results,
                              StepList& steps) {
  std::vector<Slice> sources;
  for (const ValueRef& v : roots) sources.push_back(SliceOf(scope, v));
  std::unordered_set<Slice, SliceHash> overwritten;
  for (std::size_t r = 0; r < roots.size(); ++r)
    if (!(sources[r] == results[r])) overwritten.insert(results[r]);
  for (std::size_t r = 0; r < roots.size(); ++r) {
    if (sources[r] == results[r] || !overwritten.contains(sources[r])) continue;
    Slice saved = NewTemporary(sources[r].size);
    AddCopy(sources[r], saved, steps);
    sources[r] = saved;
  }
  for (std::size_t r = 0; r < roots.size(); ++r)
    if (!(sources[r] == results[r])) AddCopy(sources[r], results[r], steps);
  // Results that are written early stay alive to the end.
  for (const Slice& s : results) Touch(s);
}

void ModulePlanner::AddCopy(const Slice& from, const Slice& to, StepList& steps) {
  if (from.size == 0) return;
  ++now_;
  Touch(from);
  Touch(to);
  steps.steps.push_back(CopyStep{from, to});
}

bool ModulePlanner::ReadAfter(const Scope& scope, const ValueRef& v, int piece) {
  auto it = scope.readers.find(v);
  return it != scope.readers.end() && it->second.back() > piece;
}

std::optional<ValueRef> ModulePlanner::UpdatedInPlace(const Scope& scope, const ValueRef& v) {
  auto it = scope.maker.find(v);
  if (it == scope.maker.end()) return std::nullopt;
  if (IsOneOf(v.instruction->opcode(), {Opcode::kWhile, Opcode::kConditional})) {
    const std::optional<ValueRef> from = carried_.From(v);
    return from && !ReadAfter(scope, *from, it->second) ? from : std::nullopt;
  }
  const Instruction* update = UpdatedOperand(scope.pieces[static_cast<std::size_t>(it->second)]);
  if (update == nullptr || update != v.instruction) return std::nullopt;
  ValueRef from = ResolveValue({update->operand(static_cast<std::size_t>(v.leaf)), 0}, true);
  // All other reads of what is overwritten must come before.
  if (ReadAfter(scope, from, it->second) || ReadsWhileUpdating(scope, it->second, from)) return std::nullopt;
  return from;
}

bool ModulePlanner::ReadsWhileUpdating(const Scope& scope, int piece, const ValueRef& from) {
  for (const BuiltKernel& k : scope.pieces[static_cast<std::size_t>(piece)].kernels) {
    const auto written = std::ranges::find_if(k.kernel.bindings, &Binding::written) - k.kernel.bindings.begin();
    for (std::size_t b = 0; b < k.values.size(); ++b)
      if (k.values[b] == from && k.kernel.bindings[b].read && !k.kernel.bindings[b].written &&
          !SafeInPlace(k.kernel, static_cast<int>(b), static_cast<int>(written)))
        return true;
  }
  return false;
}

void ModulePlanner::AliasDonated(Scope& scope, std::span<const ValueRef> parameters, std::span<const ValueRef> roots,
                                 std::span<const Slice> results) {
  std::unordered_map<int64_t, std::size_t> root_of_leaf;
  std::vector<ValueRef> result_leaves = ArrayLeaves(scope.computation->root());
  for (std::size_t r = 0; r < roots.size(); ++r) root_of_leaf.emplace(result_leaves[r].leaf, r);
  std::unordered_map<ValueRef, std::size_t, ValueRefHash> argument_of;
  for (std::size_t q = 0; q < parameters.size(); ++q) argument_of.emplace(parameters[q], q);
  // For the end of a chain of updates in place, the value with which the chain begins.
  std::unordered_map<ValueRef, ValueRef, ValueRefHash> start_of;
  auto start = [&](ValueRef v) {
    std::vector<ValueRef> chain;
    while (!start_of.contains(v)) {
      chain.push_back(v);
      std::optional<ValueRef> from = UpdatedInPlace(scope, v);
      if (!from) break;
      v = *from;
    }
    auto known = start_of.find(v);
    const ValueRef first = known != start_of.end() ? known->second : v;
    for (const ValueRef& c : chain) start_of.emplace(c, first);
    return first;
  };
  std::unordered_set<int> taken;
  for (const InputOutputAlias& alias : plan_.module->input_output_aliases) {
    if (alias.output_index.size() > 1 || !alias.parameter_index.empty()) continue;
    int64_t wanted = alias.output_index.empty() ? 0 : alias.output_index[0];
    auto at = root_of_leaf.find(wanted);
    if (at == root_of_leaf.end()) continue;
    const std::size_t r = at->second;
    ValueRef from{scope.computation->parameters()[static_cast<std::size_t>(alias.parameter)], 0};
    if (roots[r] == from || !(start(roots[r]) == from) || !taken.insert(static_cast<int>(alias.parameter)).second)
      continue;
    if (scope.IsResult(from, roots[r])) continue;
    auto argument = argument_of.find(from);
    const ValueRef& given = parameters[argument == argument_of.end() ? 0 : argument->second];
    plan_.result_aliases[static_cast<std::size_t>(wanted)] =
        plan_.allocations[static_cast<std::size_t>(scope.slices[given].allocation)].number;
    scope.Place(from, results[r]);
  }
}

void ModulePlanner::Preassign(Scope& scope, const std::unordered_map<Slice, std::vector<ValueRef>, SliceHash>& held,
                              const ValueRef& v, const Slice& destination) {
  if (scope.slices.contains(v) || !scope.maker.contains(v)) return;
  // Values that are updated in place to become `v` move to the destination with it, if they are made here.
  std::vector<ValueRef> moved;
  std::optional<ValueRef> from = v;
  while (from && scope.maker.contains(*from) && !scope.slices.contains(*from) && !scope.IsResult(*from, v)) {
    moved.push_back(*from);
    from = UpdatedInPlace(scope, *from);
  }
  if (moved.empty()) {
    if (!scope.IsResult(v, v)) return;
    moved.push_back(v);
    from = UpdatedInPlace(scope, v);
  }
  int first_write = scope.maker.at(moved.back());
  // The values that lie in the destination now; of a loop's state these are its parameters.
  if (auto holders = held.find(destination); holders != held.end()) {
    // An update of an array that lies elsewhere begins with a copy of it, which nothing that lies here survives.
    const bool begins_with_copy = UpdatedOperand(scope.pieces[static_cast<std::size_t>(first_write)]) != nullptr &&
                                  !(from && std::ranges::contains(holders->second, *from));
    for (const ValueRef& p : holders->second) {
      bool in_place = from == p;
      if (scope.IsResult(p, v)) return;
      auto it = scope.readers.find(p);
      if (it == scope.readers.end()) continue;
      for (auto reader = it->second.rbegin(); reader != it->second.rend() && *reader >= first_write; ++reader) {
        if (*reader == first_write && (in_place || (!begins_with_copy && SafeToShare(scope, *reader, p, moved.back()))))
          continue;
        return;
      }
    }
  }
  for (const ValueRef& m : moved) scope.Place(m, destination);
}

bool ModulePlanner::SafeToShare(const Scope& scope, int piece, const ValueRef& read, const ValueRef& written) {
  const Piece& p = scope.pieces[static_cast<std::size_t>(piece)];
  if (p.kernels.size() != 1) return false;
  int r = -1, w = -1;
  for (std::size_t b = 0; b < p.kernels[0].values.size(); ++b) {
    if (p.kernels[0].values[b] == read) r = static_cast<int>(b);
    if (p.kernels[0].values[b] == written) w = static_cast<int>(b);
  }
  return r >= 0 && w >= 0 && SafeInPlace(p.kernels[0].kernel, r, w);
}

void ModulePlanner::PlaceUpdated(Scope& scope, int piece, const Instruction& update, StepList& steps) {
  for (std::size_t k = 0; k < UpdatedCount(update); ++k) {
    ValueRef made{&update, update.shape().IsTuple() ? static_cast<int>(k) : 0};
    ValueRef from = ResolveValue({update.operand(k), 0}, true);
    Slice source = SliceOf(scope, from);
    if (!scope.slices.contains(made)) {
      bool temporary =
          plan_.allocations[static_cast<std::size_t>(source.allocation)].kind == Allocation::Kind::kArena &&
          scope.maker.contains(from);
      // One array that is given twice can be updated in place once.
      bool free = true;
      for (std::size_t other = 0; other < k; ++other)
        free = free && !(SliceOf(scope, {&update, static_cast<int>(other)}) == source);
      if (temporary && free && !scope.IsResult(from) && !ReadAfter(scope, from, piece) &&
          !ReadsWhileUpdating(scope, piece, from) && OnlyNameOf(scope, from, source, piece))
        scope.Place(made, source);
    }
    Slice destination = SliceOf(scope, made);
    if (!(destination == source)) AddCopy(source, destination, steps);
  }
}

void ModulePlanner::PlaceCarried(Scope& scope, int piece, const ValueRef& v) {
  const std::optional<ValueRef> from = UpdatedInPlace(scope, v);
  if (!from || !scope.maker.contains(*from) || scope.IsResult(*from)) return;
  const Slice source = SliceOf(scope, *from);
  const bool is_temporary =
      plan_.allocations[static_cast<std::size_t>(source.allocation)].kind == Allocation::Kind::kArena;
  if (is_temporary && OnlyNameOf(scope, *from, source, piece)) scope.Place(v, source);
}

bool ModulePlanner::OnlyNameOf(const Scope& scope, const ValueRef& v, const Slice& slice, int piece) {
  auto names = scope.loop_states.find(slice);
  if (names == scope.loop_states.end()) return true;
  return std::ranges::all_of(names->second, [&](const ValueRef& name) {
    return name == v || (!scope.IsResult(name) && !ReadAfter(scope, name, piece - 1));
  });
}

}  // namespace krafla::plan
