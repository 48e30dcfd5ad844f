// SPDX-License-Identifier: Apache-2.0
#include "plan/carried_values.h"

#include <unordered_set>

#include "base/index.h"

namespace krafla::plan {
namespace {

constexpr int kMostUpdates = 64;  // that a branch makes of what it passes on

int LeafCount(const Instruction& i) { return static_cast<int>(TupleLeaves(i.shape()).size()); }

}  // namespace

std::optional<ValueRef> CarriedValues::From(const ValueRef& v) { return Of(*v.instruction)[At(v.leaf)]; }

const std::vector<std::optional<ValueRef>>& CarriedValues::Of(const Instruction& i) {
  if (const auto it = known_.find(&i); it != known_.end()) return it->second;
  std::vector<std::optional<ValueRef>> out = i.opcode() == Opcode::kWhile ? OfWhile(i) : OfConditional(i);
  return known_.emplace(&i, std::move(out)).first->second;
}

std::vector<std::optional<ValueRef>> CarriedValues::OfWhile(const Instruction& loop) const {
  std::vector<std::optional<ValueRef>> out(At(LeafCount(loop)));
  std::unordered_map<ValueRef, int, ValueRefHash> uses;
  for (int k = 0; k < LeafCount(loop); ++k) {
    out[At(k)] = ResolveValue({loop.operand(0), k}, true);
    ++uses[*out[At(k)]];
  }
  for (std::optional<ValueRef>& from : out)
    if (uses[*from] > 1) from.reset();
  return out;
}

std::vector<std::optional<ValueRef>> CarriedValues::OfConditional(const Instruction& i) {
  std::vector<std::optional<ValueRef>> out(At(LeafCount(i)));
  const ValueRef index = ResolveValue({i.operand(0), 0}, true);
  std::unordered_set<ValueRef, ValueRefHash> taken{index};
  for (int k = 0; k < LeafCount(i); ++k)
    for (std::size_t b = 0; b < i.called().size() && !out[At(k)]; ++b) {
      const Computation& branch = *i.called(b);
      const std::optional<int> leaf = ParameterLeaf(branch, ResolveValue({branch.root(), k}, true));
      if (!leaf) continue;
      const ValueRef from = ResolveValue({i.operand(b + 1), *leaf}, true);
      if (taken.insert(from).second) out[At(k)] = from;
    }
  return out;
}

std::optional<int> CarriedValues::ParameterLeaf(const Computation& branch, ValueRef v) {
  for (int n = 0; n < kMostUpdates; ++n) {
    const Instruction& i = *v.instruction;
    if (&i == branch.parameters()[0]) return v.leaf;
    if (IsOneOf(i.opcode(), {Opcode::kDynamicUpdateSlice, Opcode::kScatter})) {
      v = ResolveValue({i.operand(At(v.leaf)), 0}, true);
    } else if (IsOneOf(i.opcode(), {Opcode::kWhile, Opcode::kConditional})) {
      const std::optional<ValueRef> from = From(v);
      if (!from) return std::nullopt;
      v = *from;
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace krafla::plan
