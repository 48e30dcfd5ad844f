// SPDX-License-Identifier: Apache-2.0
// Groups of values that are to be cut alike: Shardy's sharding_group, JAX's shard_alike.
#include <algorithm>

#include "ir/custom_call.h"
#include "passes/spmd/spmd_walk.h"

namespace krafla::spmd {
namespace {

bool IsCut(const std::vector<Split>& dims) {
  return std::ranges::any_of(dims, [](const Split& s) { return !s.whole(); });
}

bool MayBeCut(const Value& value) { return value.IsArray() && !value.local->shape().IsDynamic(); }

}  // namespace

Result<> Walk::FindGroups(const Computation& from, Scope& scope) {
  for (const auto& i : from.instructions()) {
    if (CustomCallTargetOf(*i) != CustomCallTarget::kSdyShardingGroup) continue;
    const std::string group(FrontendAttribute(i->metadata(), "xla.sdy.sharding_group_id"));
    if (i->operand_count() != 1 || !i->operand(0)->shape().IsArray() || group.empty())
      return InvalidArgument("{} has no array, or names no group.", Describe(*i));
    const Instruction* member = i->operand(0);
    std::vector<std::string>& groups = scope.groups[member];
    if (std::ranges::find(groups, group) != groups.end()) continue;
    groups.push_back(group);
    std::vector<const Instruction*>& members = scope.members[group];
    if (!members.empty() && !Shape::SameDims(members[0]->shape(), member->shape()))
      return InvalidArgument("The values {} and {} are to be sharded alike.", members[0]->shape().ToString(false),
                             member->shape().ToString(false));
    members.push_back(member);
    if (member->opcode() != Opcode::kParameter) continue;
    const auto number = static_cast<std::size_t>(member->attr<ParameterAttributes>().number);
    if (number >= scope.arguments.size() || !MayBeCut(scope.arguments[number])) continue;
    if (const std::vector<Split>& dims = scope.arguments[number].dims; IsCut(dims)) groups_.emplace(group, dims);
  }
  return {};
}

Result<Value> Walk::CutLike(Value value, const std::vector<Split>& dims, Emitter& emitter) const {
  if (!MayBeCut(value) || value.dims == dims || value.dims.size() != dims.size()) return value;
  for (std::size_t d = 0; d < dims.size(); ++d)
    if (!MayBeCutInto(value.size(d), dims[d])) return value;
  if (!Covers(dims, value.region, devices())) return value;
  return emitter.ReshardTo(std::move(value), dims, {});
}

Result<> Walk::CutAlike(const Instruction& i, Value& made, Scope& scope) {
  const auto found = scope.groups.find(&i);
  if (found == scope.groups.end() || !MayBeCut(made)) return {};
  for (const std::string& group : found->second) {
    auto known = groups_.find(group);
    if (known == groups_.end()) {
      if (!IsCut(made.dims)) continue;
      known = groups_.emplace(group, made.dims).first;
      for (const Instruction* member : scope.members.at(group)) {
        const auto before = scope.values.find(member);
        if (before == scope.values.end()) continue;
        KRAFLA_ASSIGN(before->second, CutLike(before->second, known->second, scope.emitter));
      }
    }
    KRAFLA_ASSIGN(made, CutLike(std::move(made), known->second, scope.emitter));
  }
  return {};
}

}  // namespace krafla::spmd
