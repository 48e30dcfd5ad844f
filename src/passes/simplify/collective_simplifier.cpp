// SPDX-License-Identifier: Apache-2.0
// Collectives among one device are their operand; the id of the only replica or partition is 0.
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

bool AllAlone(const Module& module, const CollectiveAttributes& attributes) {
  if (module.replica_count == 1 && module.num_partitions == 1) return true;
  if (attributes.replica_groups.empty()) return false;
  // With a channel and without global ids a group of replicas means all their partitions, to the ops that know of both.
  if (attributes.channel_id && !attributes.use_global_device_ids && module.num_partitions != 1) return false;
  for (const auto& group : attributes.replica_groups)
    if (group.size() != 1) return false;
  return true;
}

Instruction* Operands(Instruction* i) {
  if (i->operand_count() == 1 && Shape::Compatible(i->shape(), i->operand(0)->shape())) return i->operand(0);
  const std::vector<Shape>& results = i->shape().tuple_elements();
  if (!i->shape().IsTuple() || results.size() != i->operand_count()) return nullptr;
  for (std::size_t n = 0; n < results.size(); ++n)
    if (!Shape::Compatible(results[n], i->operand(n)->shape())) return nullptr;
  return Rewriter(*i).Tuple({i->operands().begin(), i->operands().end()});
}

Instruction* SimplifyPermute(Instruction* i, const Module& module) {
  if (module.replica_count != 1 || module.num_partitions != 1 || !i->shape().IsArray() || i->operand_count() != 1)
    return nullptr;
  for (auto [source, target] : i->attr<CollectiveAttributes>().source_target_pairs)
    if (source == 0 && target == 0) return i->operand(0);
  // Nobody sends here.
  if (!IsStatic(*i)) return nullptr;
  return Rewriter(*i).Splat(ScalarZero(i->shape().element_type()), i->shape().dims());
}

Instruction* SimplifyCollective(Instruction* i, const Module& module) {
  Opcode op = i->opcode();
  if ((op == Opcode::kReplicaId && module.replica_count == 1) ||
      (op == Opcode::kPartitionId && module.num_partitions == 1))
    return Rewriter(*i).Constant(ScalarZero(i->shape().element_type()));
  if (op == Opcode::kCollectivePermute) return SimplifyPermute(i, module);
  if (op == Opcode::kAllReduce || op == Opcode::kAllGather || op == Opcode::kReduceScatter || op == Opcode::kAllToAll) {
    return AllAlone(module, i->attr<CollectiveAttributes>()) ? Operands(i) : nullptr;
  }
  if (op == Opcode::kCollectiveBroadcast) {
    // A device outside all groups gets zeros, so it must be in one.
    const auto& attributes = i->attr<CollectiveAttributes>();
    bool grouped =
        static_cast<int64_t>(attributes.replica_groups.size()) >= module.replica_count * module.num_partitions;
    return grouped && AllAlone(module, attributes) ? Operands(i) : nullptr;
  }
  return nullptr;
}

}  // namespace

Result<bool> CollectiveSimplifier(Module& module, const PassOptions&) {
  return RewriteWhere(
      module, [](const Instruction&) { return true; },
      [&](Instruction* i) -> Result<Instruction*> { return SimplifyCollective(i, module); });
}

}  // namespace krafla
