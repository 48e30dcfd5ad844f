// SPDX-License-Identifier: Apache-2.0
// Instructions between devices.
#include <algorithm>

#include "hlo_io/stablehlo/tree_builder.h"
#include "hlo_io/stablehlo/words.h"
#include "ir/replica_groups.h"

namespace krafla::stablehlo {
namespace {

// HLO's word for all devices is no group at all; StableHLO wants them told.
ReplicaGroups SpelledOut(const Module& module, Opcode opcode, const CollectiveAttributes& a) {
  if (!a.replica_groups.empty()) return a.replica_groups;
  const bool of_partitions =
      a.channel_id && !a.use_global_device_ids && IsOneOf(opcode, {Opcode::kAllToAll, Opcode::kCollectiveBroadcast});
  const int64_t count = of_partitions             ? module.num_partitions
                        : a.use_global_device_ids ? module.replica_count * module.num_partitions
                                                  : module.replica_count;
  ReplicaGroups out(1);
  for (int64_t device = 0; device < count; ++device) out[0].push_back(device);
  return out;
}

// Shorter groups are filled up with -1.
AttributeRef GroupsTable(TreeBuilder& b, const ReplicaGroups& groups) {
  std::size_t width = 0;
  for (const auto& group : groups) width = std::max(width, group.size());
  Dims flat;
  for (const auto& group : groups)
    for (std::size_t m = 0; m < width; ++m) flat.push_back(m < group.size() ? group[m] : -1);
  return b.Table(std::ssize(groups), static_cast<int64_t>(width), flat);
}

AttributeRef PairsTable(TreeBuilder& b, const CollectiveAttributes& a) {
  Dims flat;
  for (const auto& [from, to] : a.source_target_pairs) {
    flat.push_back(from);
    flat.push_back(to);
  }
  return b.Table(std::ssize(a.source_target_pairs), 2, flat);
}

// One operation for each array, as StableHLO has these of one array only.
Result<> WriteEach(TreeBuilder& b, const Instruction& i, Scope& scope, std::string_view name,
                   const AttributeList& attributes, const Shape& result) {
  const Leaves operands = b.OperandLeaves(i, scope);
  const std::vector<const Shape*> shapes = TupleLeaves(result);
  if (operands.size() == 1 && shapes.size() == 1) {
    KRAFLA_ASSIGN(std::vector<Region> regions, b.RegionsOf(i));
    return b.Emit(i, scope, name, operands, attributes, std::move(regions), &result);
  }
  if (operands.size() != shapes.size())
    return Unimplemented("StableHLO's '{}' gives an array for each that it takes; this one takes {} and gives {}.",
                         name, operands.size(), shapes.size());
  Leaves results;
  for (std::size_t n = 0; n < operands.size(); ++n) {
    KRAFLA_ASSIGN(std::vector<Region> regions, b.RegionsOf(i));
    KRAFLA_ASSIGN(ValueId one, b.Add(scope, name, {operands[n]}, *shapes[n], attributes, std::move(regions)));
    results.push_back(one);
  }
  b.Bind(i, scope, std::move(results));
  return {};
}

// Each operand goes to another member of the group. StableHLO exchanges the blocks of one array: the operands become
// the rows of one.
Result<> WriteAllToAllOfArrays(TreeBuilder& b, const Instruction& i, Scope& scope, AttributeList attributes) {
  const Leaves operands = b.OperandLeaves(i, scope);
  const auto count = static_cast<int64_t>(operands.size());
  const Shape& each = i.operand(0)->shape();
  Dims row{1}, all{count};
  row.append(each.dims().begin(), each.dims().end());
  all.append(each.dims().begin(), each.dims().end());
  KRAFLA_ASSIGN(const Shape row_shape, Shape::MakeArray(each.element_type(), row));
  KRAFLA_ASSIGN(const Shape all_shape, Shape::MakeArray(each.element_type(), all));
  Leaves rows;
  for (ValueId operand : operands) {
    KRAFLA_ASSIGN(ValueId one, b.AddReshaped(scope, operand, row_shape));
    rows.push_back(one);
  }
  KRAFLA_ASSIGN(ValueId value, b.Add(scope, "concatenate", rows, all_shape, {{"dimension", b.Integer(0)}}));
  attributes.emplace_back("split_dimension", b.Integer(0));
  attributes.emplace_back("concat_dimension", b.Integer(0));
  attributes.emplace_back("split_count", b.Integer(count));
  KRAFLA_ASSIGN(value, b.Add(scope, "all_to_all", {value}, all_shape, std::move(attributes)));
  Leaves results;
  for (int64_t n = 0; n < count; ++n) {
    Dims starts(row.size(), 0), limits = all;
    starts[0] = n;
    limits[0] = n + 1;
    KRAFLA_ASSIGN(ValueId one, b.Add(scope, "slice", {value}, row_shape,
                                     {{"start_indices", b.List(starts)},
                                      {"limit_indices", b.List(limits)},
                                      {"strides", b.List(Dims(row.size(), 1))}}));
    KRAFLA_ASSIGN(one, b.AddReshaped(scope, one, each));
    results.push_back(one);
  }
  b.Bind(i, scope, std::move(results));
  return {};
}

// As the reader has it (RaggedAllToAll).
Result<> WriteRaggedAllToAll(TreeBuilder& b, const Instruction& i, Scope& scope) {
  const auto& a = i.attr<CollectiveAttributes>();
  AttributeList config{{"replica_groups", GroupsTable(b, SpelledOut(b.module(), i.opcode(), a))}};
  if (a.channel_id) config.emplace_back("channel_id", b.Integer(*a.channel_id));
  return b.Emit(i, scope, "custom_call", b.OperandLeaves(i, scope),
                {{"api_version", b.Word(kApiVersionWords[4])},
                 {"backend_config", b.Dictionary(std::move(config))},
                 {"call_target_name", b.Text("ragged_all_to_all")},
                 {"called_computations", b.Array({})},
                 {"has_side_effect", b.Flag(false)},
                 {"operand_layouts", b.Array({})},
                 {"output_operand_aliases", b.Array({})},
                 {"result_layouts", b.Array({})}});
}

// What a collective that only begins gives when it ends: the second of its elements.
const Shape& ResultOf(const Instruction& i) {
  const bool begins = IsOneOf(i.opcode(), {Opcode::kAllGatherStart, Opcode::kCollectivePermuteStart});
  return begins ? i.shape().tuple_elements()[1] : i.shape();
}

// The channel, and the groups where they are said.
AttributeList GroupAttributes(TreeBuilder& b, const Instruction& i) {
  const auto& a = i.attr<CollectiveAttributes>();
  return {{"channel_id", b.Integer(a.channel_id.value_or(0))},
          {"replica_groups", GroupsTable(b, SpelledOut(b.module(), i.opcode(), a))}};
}

Result<> WriteAllReduce(TreeBuilder& b, const Instruction& i, Scope& scope) {
  AttributeList attributes = GroupAttributes(b, i);
  attributes.emplace_back("use_global_device_ids", b.Flag(i.attr<CollectiveAttributes>().use_global_device_ids));
  KRAFLA_ASSIGN(std::vector<Region> regions, b.RegionsOf(i));
  return b.Emit(i, scope, "all_reduce", b.OperandLeaves(i, scope), std::move(attributes), std::move(regions));
}

Result<> WriteReduceScatter(TreeBuilder& b, const Instruction& i, Scope& scope) {
  const auto& a = i.attr<CollectiveAttributes>();
  AttributeList attributes = GroupAttributes(b, i);
  attributes.emplace_back("use_global_device_ids", b.Flag(a.use_global_device_ids));
  attributes.emplace_back("scatter_dimension", b.Integer(a.dimension.value_or(0)));
  return WriteEach(b, i, scope, "reduce_scatter", attributes, i.shape());
}

Result<> WriteAllGather(TreeBuilder& b, const Instruction& i, Scope& scope) {
  const auto& a = i.attr<CollectiveAttributes>();
  AttributeList attributes = GroupAttributes(b, i);
  attributes.emplace_back("use_global_device_ids", b.Flag(a.use_global_device_ids));
  attributes.emplace_back("all_gather_dim", b.Integer(a.dimension.value_or(0)));
  return b.Emit(i, scope, "all_gather", b.OperandLeaves(i, scope), std::move(attributes), {}, &ResultOf(i));
}

Result<> WriteAllToAll(TreeBuilder& b, const Instruction& i, Scope& scope) {
  const auto& a = i.attr<CollectiveAttributes>();
  AttributeList attributes = GroupAttributes(b, i);
  if (!a.dimension) return WriteAllToAllOfArrays(b, i, scope, std::move(attributes));
  attributes.emplace_back("split_dimension", b.Integer(*a.dimension));
  attributes.emplace_back("concat_dimension", b.Integer(*a.dimension));
  attributes.emplace_back("split_count", b.Integer(std::ssize(SpelledOut(b.module(), i.opcode(), a)[0])));
  return b.Emit(i, scope, "all_to_all", b.OperandLeaves(i, scope), std::move(attributes));
}

Result<> WritePermute(TreeBuilder& b, const Instruction& i, Scope& scope) {
  const auto& a = i.attr<CollectiveAttributes>();
  return WriteEach(b, i, scope, "collective_permute",
                   {{"channel_id", b.Integer(a.channel_id.value_or(0))}, {"source_target_pairs", PairsTable(b, a)}},
                   ResultOf(i));
}

Result<> WriteCollectiveBroadcast(TreeBuilder& b, const Instruction& i, Scope& scope) {
  return WriteEach(b, i, scope, "collective_broadcast", GroupAttributes(b, i), i.shape());
}

Result<> WriteDeviceId(TreeBuilder& b, const Instruction& i, Scope& scope) {
  return b.Emit(i, scope, GetOpInfo(i.opcode()).stablehlo_name, {});
}

constexpr OpcodeWriter kCollectiveRows[] = {
    {Opcode::kAllGather, WriteAllGather},         {Opcode::kAllGatherStart, WriteAllGather},
    {Opcode::kAllReduce, WriteAllReduce},         {Opcode::kAllReduceStart, WriteAllReduce},
    {Opcode::kAllToAll, WriteAllToAll},           {Opcode::kCollectiveBroadcast, WriteCollectiveBroadcast},
    {Opcode::kCollectivePermute, WritePermute},   {Opcode::kCollectivePermuteStart, WritePermute},
    {Opcode::kPartitionId, WriteDeviceId},        {Opcode::kRaggedAllToAll, WriteRaggedAllToAll},
    {Opcode::kReduceScatter, WriteReduceScatter}, {Opcode::kReplicaId, WriteDeviceId}};

}  // namespace

Result<bool> WriteCollective(TreeBuilder& b, const Instruction& i, Scope& scope) {
  return WriteByRow(kCollectiveRows, b, i, scope);
}

}  // namespace krafla::stablehlo
