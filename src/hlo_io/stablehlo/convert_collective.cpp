// SPDX-License-Identifier: Apache-2.0
// Operations between devices.
#include <algorithm>

#include "base/checked_math.h"
#include "hlo_io/stablehlo/converter.h"
#include "ir/replica_groups.h"

namespace krafla::stablehlo {
namespace {

// A mesh that an attribute spells out: {axes = [{name = "x", size = 2}], device_ids = dense<...>}.
Result<SdyMesh> MeshOf(AttributeRef mesh) {
  SdyMesh out;
  AttributeRef axes = Entry(mesh, "axes"), ids = Entry(mesh, "device_ids");
  if (axes == nullptr) return InvalidArgument("A mesh of replica groups has no axes.");
  for (AttributeRef axis : axes->elements) {
    AttributeRef name = Entry(axis, "name"), size = Entry(axis, "size");
    if (name == nullptr || size == nullptr) return InvalidArgument("An axis of a mesh has no name or no size.");
    out.axes.emplace_back(name->text, size->integer);
  }
  if (ids != nullptr) {
    KRAFLA_ASSIGN(Dims list, IntegersOf(*ids));
    out.devices.assign(list.begin(), list.end());
    std::vector<int64_t> sorted = out.devices;
    std::ranges::sort(sorted);
    int64_t count = 1;
    for (const auto& [name, size] : out.axes) count = CheckedMul(count, size).value_or(-1);
    bool each = count == static_cast<int64_t>(sorted.size());
    for (std::size_t i = 0; each && i < sorted.size(); ++i) each = sorted[i] == static_cast<int64_t>(i);
    if (!each) return InvalidArgument("A mesh of {} devices names others, or not each once.", count);
  }
  return out;
}

// Replica groups along the axes of a mesh (StableHLO's replica_group_mesh_axes).
Result<ReplicaGroups> GroupsOfMesh(const Converter& c, AttributeRef groups) {
  AttributeRef mesh = Entry(groups, "mesh"), axes = Entry(groups, "axes");
  if (mesh == nullptr || axes == nullptr)
    return InvalidArgument("Replica groups have neither numbers nor a mesh and axes.");
  SdyMesh over;
  if (mesh->kind == Attribute::Kind::kString) {
    auto it = c.meshes().find(mesh->text);
    if (it == c.meshes().end())
      return InvalidArgument("Replica groups name the mesh '{}', which is not defined.", mesh->text);
    over = it->second;
  } else {
    KRAFLA_ASSIGN(over, MeshOf(mesh));
  }
  DeviceMesh devices;
  for (const auto& [name, size] : over.axes) devices.sizes.push_back(size);
  devices.devices = over.devices;
  std::vector<MeshAxisPart> along;
  for (AttributeRef axis : axes->elements) {
    AttributeRef name = Entry(axis, "name"), part = Entry(axis, "sub_axis_info");
    if (name == nullptr) return InvalidArgument("An axis of replica groups has no name.");
    const auto found = std::ranges::find(over.axes, name->text, [](const auto& a) { return a.first; });
    if (found == over.axes.end())
      return InvalidArgument("Replica groups name the axis '{}', which their mesh does not have.", name->text);
    MeshAxisPart one{found - over.axes.begin(), 1, 0};
    if (part != nullptr) {
      AttributeRef before = Entry(part, "pre_size"), size = Entry(part, "size");
      if (before == nullptr || size == nullptr || size->integer < 1)
        return InvalidArgument("A part of an axis has no size.");
      one.above = before->integer;
      one.size = size->integer;
    }
    along.push_back(one);
  }
  return MeshGroups(devices, along);
}

}  // namespace

namespace {

Result<CollectiveAttributes> CollectiveOf(const Converter& c, AttributeRef channel, AttributeRef global,
                                          AttributeRef groups) {
  CollectiveAttributes out;
  if (channel != nullptr && channel->integer > 0) out.channel_id = channel->integer;
  if (global != nullptr) out.use_global_device_ids = global->kind == Attribute::Kind::kUnit || global->integer != 0;
  if (groups == nullptr) return out;
  if (groups->kind == Attribute::Kind::kDictionary) {
    KRAFLA_ASSIGN(out.replica_groups, GroupsOfMesh(c, groups));
    return out;
  }
  if (groups->kind != Attribute::Kind::kDense) return InvalidArgument("Replica groups are no array of numbers.");
  KRAFLA_ASSIGN(Dims flat, IntegersOf(*groups));
  const Dims& dims = groups->type->dims;
  if (dims.size() != 2)
    return InvalidArgument("Replica groups are an array of {} dimensions, not of two.", dims.size());
  for (int64_t g = 0; g < dims[0]; ++g) {
    std::vector<int64_t> group;
    for (int64_t m = 0; m < dims[1]; ++m) {
      const int64_t device = flat[static_cast<std::size_t>(g * dims[1] + m)];
      if (device >= 0) group.push_back(device);  // -1 fills up shorter groups
    }
    out.replica_groups.push_back(std::move(group));
  }
  return out;
}

}  // namespace

Result<CollectiveAttributes> CollectiveOf(const Converter& c, const Op& op) {
  return CollectiveOf(c, op.Find("channel_id"), op.Find("use_global_device_ids"), op.Find("replica_groups"));
}

Result<> RaggedAllToAll(Converter& c, const Op& op, Body& body) {
  AttributeRef config = op.Find("backend_config");
  if (config == nullptr || config->kind != Attribute::Kind::kDictionary)
    config = op.FindDiscardable("mhlo.backend_config");
  if (Entry(config, "replica_groups") == nullptr)
    return InvalidArgument("The custom call 'ragged_all_to_all' has no replica_groups in its backend_config.");
  KRAFLA_ASSIGN(CollectiveAttributes a,
                CollectiveOf(c, Entry(config, "channel_id"), nullptr, Entry(config, "replica_groups")));
  KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
  return c.Emit(op, body, Opcode::kRaggedAllToAll, std::move(operands), std::move(a));
}

namespace {

// The blocks of `split` change places and are put together along `concat`.
Result<> AllToAll(Converter& c, const Op& op, Body& body) {
  KRAFLA_ASSIGN(CollectiveAttributes a, CollectiveOf(c, op));
  KRAFLA_ASSIGN(int64_t split, IntAttribute(op, "split_dimension"));
  KRAFLA_ASSIGN(int64_t concat, IntAttribute(op, "concat_dimension"));
  KRAFLA_ASSIGN(int64_t count, IntAttribute(op, "split_count"));
  KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
  if (operands.size() != op.results.size())
    return InvalidArgument("'all_to_all' has {} operands and {} results.", operands.size(), op.results.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    Instruction* value = operands[i];
    const Shape shape = value->shape();
    if (split < 0 || split >= shape.rank() || concat < 0 || concat >= shape.rank() || count < 1 ||
        shape.dim(split) % count != 0)
      return InvalidArgument("'all_to_all' cannot split dimension {} of {} into {}.", split, shape.ToString(false),
                             count);
    Computation& computation = *body.computation;
    CollectiveAttributes one = a;
    one.dimension = split;
    if (split == concat) {
      KRAFLA_ASSIGN(value, AddInferred(computation, Opcode::kAllToAll, {value}, std::move(one)));
    } else {
      // [.., count, block, ..]: exchange along count, bring it before `concat`, melt the two.
      Dims parted;
      for (int64_t d = 0; d < shape.rank(); ++d) {
        if (d == split) parted.push_back(count);
        parted.push_back(d == split ? shape.dim(d) / count : shape.dim(d));
      }
      KRAFLA_ASSIGN(value, AddReshape(computation, value, parted));
      KRAFLA_ASSIGN(value, AddInferred(computation, Opcode::kAllToAll, {value}, std::move(one)));
      Dims order, result;
      for (int64_t d = 0; d < shape.rank(); ++d) {
        if (d == concat) order.push_back(split);
        order.push_back(d < split ? d : d + 1);
        const int64_t size = d == split ? shape.dim(d) / count : shape.dim(d);
        result.push_back(d == concat ? size * count : size);
      }
      KRAFLA_ASSIGN(value, AddTranspose(computation, value, std::move(order)));
      KRAFLA_ASSIGN(value, AddReshape(computation, value, result));
    }
    body.values[op.results[i]] = value;
  }
  return {};
}

}  // namespace

Result<bool> ConvertCollective(Converter& c, const Op& op, Body& body) {
  const std::string& n = op.name;
  if (n == "partition_id" || n == "replica_id") {
    KRAFLA_TRY(c.Emit(op, body, n == "replica_id" ? Opcode::kReplicaId : Opcode::kPartitionId, {}));
    return true;
  }
  if (n == "all_to_all") {
    KRAFLA_TRY(AllToAll(c, op, body));
    return true;
  }
  KRAFLA_ASSIGN(bool rooted, ConvertRooted(c, op, body));
  if (rooted) return true;
  std::optional<Opcode> opcode;
  std::string_view dimension;
  if (n == "all_reduce") opcode = Opcode::kAllReduce;
  else if (n == "all_gather") opcode = Opcode::kAllGather, dimension = "all_gather_dim";
  else if (n == "reduce_scatter") opcode = Opcode::kReduceScatter, dimension = "scatter_dimension";
  else if (n == "collective_permute") opcode = Opcode::kCollectivePermute;
  else if (n == "collective_broadcast") opcode = Opcode::kCollectiveBroadcast;
  else if (n == "cross-replica-sum") opcode = Opcode::kAllReduce;
  if (!opcode) return false;
  KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
  KRAFLA_ASSIGN(CollectiveAttributes a, CollectiveOf(c, op));
  if (!dimension.empty()) { KRAFLA_ASSIGN(a.dimension, IntAttribute(op, dimension)); }
  if (*opcode == Opcode::kCollectivePermute) {
    KRAFLA_ASSIGN(a.source_target_pairs, PairsAttribute(op, "source_target_pairs"));
  }
  std::vector<Computation*> called;
  if (n == "all_reduce" || n == "reduce_scatter") {
    KRAFLA_ASSIGN(Computation * computation, c.RegionComputation(op, body, 0));
    called.push_back(computation);
  } else if (n == "cross-replica-sum") {
    if (operands.size() != 1) return InvalidArgument("'{}' takes one operand, {} given.", n, operands.size());
    called.push_back(
        AddBinaryComputation(c.module(), Opcode::kAdd, Shape::MakeScalar(operands[0]->shape().element_type())));
  }
  KRAFLA_TRY(c.Emit(op, body, *opcode, std::move(operands), std::move(a), std::move(called)));
  return true;
}

}  // namespace krafla::stablehlo
