// SPDX-License-Identifier: Apache-2.0
// Collectives with a root that HLO has no operation for: collective_broadcast from a member that the program computes,
// and collective_reduce, whose result the root alone has (StableHLO's docs/spec.md). The members of a group are counted
// in HLO's order: replicas first, then the partitions of each.
#include "hlo_io/stablehlo/converter.h"

namespace krafla::stablehlo {
namespace {

// Element `n` of a vector of integers, as s32[].
Result<Instruction*> NumberAt(Computation& computation, Instruction* numbers, int64_t n) {
  KRAFLA_ASSIGN(numbers, AddConvert(computation, numbers, ElementType::kS32));
  KRAFLA_ASSIGN(Instruction * one,
                AddInferred(computation, Opcode::kSlice, {numbers}, SliceAttributes{Dims{n}, Dims{n + 1}, Dims{1}}));
  return AddReshape(computation, one, Dims{});
}

struct Rooted {
  std::vector<Instruction*> data;
  Instruction* roots = nullptr;  // null: the first member of each group
};

// The last operand holds the number of a member for each of the others.
Result<Rooted> OperandsOf(Converter& c, const Op& op, Body& body) {
  Rooted out;
  KRAFLA_ASSIGN(out.data, c.Operands(op, body));
  if (AttributeRef root = op.Find("has_dynamic_root"); root != nullptr && root->integer != 0) {
    if (out.data.empty()) return InvalidArgument("'{}' has no operand that names its root.", op.name);
    out.roots = out.data.back();
    out.data.pop_back();
    const Shape& shape = out.roots->shape();
    if (!shape.IsArray() || !IsIntegral(shape.element_type()) || shape.IsDynamic() || shape.rank() != 1 ||
        shape.dim(0) != std::ssize(out.data))
      return InvalidArgument("'{}' has {} arrays, and {} for the numbers of their roots.", op.name, out.data.size(),
                             shape.ToString(false));
  }
  if (out.data.empty() || out.data.size() != op.results.size())
    return InvalidArgument("'{}' has {} arrays and {} results.", op.name, out.data.size(), op.results.size());
  for (const Instruction* x : out.data) {
    if (!x->shape().IsArray()) return InvalidArgument("'{}' takes arrays.", op.name);
    if (x->shape().IsDynamic())
      return Unimplemented("'{}' of an array with a size of run time is not supported.", op.name);
  }
  return out;
}

// A channel without global ids means the partitions of each replica to collective_broadcast, which an all-gather can be
// told by the numbers of devices only.
CollectiveAttributes ForGather(const Module& module, CollectiveAttributes a) {
  if (!a.channel_id || a.use_global_device_ids) return a;
  std::vector<std::vector<int64_t>> groups = a.replica_groups;
  if (groups.empty()) {
    groups.emplace_back();
    for (int64_t p = 0; p < module.num_partitions; ++p) groups[0].push_back(p);
  }
  a.replica_groups.clear();
  for (int64_t r = 0; r < module.replica_count; ++r)
    for (std::vector<int64_t> group : groups) {
      for (int64_t& p : group) p += r * module.num_partitions;
      a.replica_groups.push_back(std::move(group));
    }
  a.use_global_device_ids = true;
  return a;
}

// Everybody gets the arrays of all, and takes the root's.
Result<> BroadcastFromRoot(Converter& c, const Op& op, Body& body, const Rooted& of) {
  Computation& computation = *body.computation;
  KRAFLA_ASSIGN(CollectiveAttributes a, CollectiveOf(c, op));
  a = ForGather(c.module(), std::move(a));
  a.dimension = 0;
  Instruction* zero = AddScalarConstant(computation, ElementType::kS32, 0);
  for (std::size_t i = 0; i < of.data.size(); ++i) {
    const Dims dims = of.data[i]->shape().dims();
    Dims one = {1};
    for (int64_t d : dims) one.push_back(d);
    KRAFLA_ASSIGN(Instruction * x, AddReshape(computation, of.data[i], one));
    KRAFLA_ASSIGN(Instruction * all, AddInferred(computation, Opcode::kAllGather, {x}, a));
    std::vector<Instruction*> operands(one.size() + 1, zero);
    operands[0] = all;
    KRAFLA_ASSIGN(operands[1], NumberAt(computation, of.roots, static_cast<int64_t>(i)));
    KRAFLA_ASSIGN(x, AddInferred(computation, Opcode::kDynamicSlice, std::move(operands), DynamicSliceAttributes{one}));
    KRAFLA_ASSIGN(body.values[op.results[i]], AddReshape(computation, x, dims));
  }
  return {};
}

// s32[]: which member of its group a device is.
Result<Instruction*> RankOf(const Module& module, Computation& computation, const CollectiveAttributes& a) {
  auto id = [&](Opcode opcode) -> Result<Instruction*> {
    KRAFLA_ASSIGN(Instruction * number, AddInferred(computation, opcode, {}));
    return AddConvert(computation, number, ElementType::kS32);
  };
  auto combined = [&](Instruction* replica) -> Result<Instruction*> {
    Instruction* count = AddScalarConstant(computation, ElementType::kS32, static_cast<double>(module.num_partitions));
    KRAFLA_ASSIGN(Instruction * before, AddInferred(computation, Opcode::kMultiply, {replica, count}));
    KRAFLA_ASSIGN(Instruction * partition, id(Opcode::kPartitionId));
    return AddInferred(computation, Opcode::kAdd, {before, partition});
  };
  KRAFLA_ASSIGN(Instruction * rank, id(Opcode::kReplicaId));
  if (a.channel_id && a.use_global_device_ids) { KRAFLA_ASSIGN(rank, combined(rank)); }
  if (!a.replica_groups.empty()) {
    int64_t count = 0;
    for (const auto& group : a.replica_groups)
      for (int64_t member : group) count = std::max(count, member + 1);
    if (count > (int64_t{1} << 20))
      return InvalidArgument("Replica groups name device {}, which is too many.", count - 1);
    KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(ElementType::kS32, Dims{count}));
    KRAFLA_ASSIGN(Literal table, Literal::Create(shape));
    for (const auto& group : a.replica_groups)
      for (std::size_t m = 0; m < group.size(); ++m)
        if (group[m] >= 0) table.data<int32_t>()[static_cast<std::size_t>(group[m])] = static_cast<int32_t>(m);
    KRAFLA_ASSIGN(rank,
                  AddInferred(computation, Opcode::kDynamicSlice, {AddConstant(computation, std::move(table)), rank},
                              DynamicSliceAttributes{Dims{1}}));
    KRAFLA_ASSIGN(rank, AddReshape(computation, rank, Dims{}));
  }
  return a.channel_id && !a.use_global_device_ids ? combined(rank) : Result<Instruction*>(rank);
}

// Everybody gets what is combined, and keeps zeros who is not the root.
Result<> Reduce(Converter& c, const Op& op, Body& body, const Rooted& of) {
  Computation& computation = *body.computation;
  KRAFLA_ASSIGN(CollectiveAttributes a, CollectiveOf(c, op));
  KRAFLA_ASSIGN(Instruction * rank, RankOf(c.module(), computation, a));
  KRAFLA_ASSIGN(Computation * combiner, c.RegionComputation(op, body, 0));
  KRAFLA_ASSIGN(Instruction * all, AddInferred(computation, Opcode::kAllReduce, of.data, a, {combiner}));
  for (std::size_t i = 0; i < of.data.size(); ++i) {
    const auto n = static_cast<int64_t>(i);
    Instruction *value = all, *root = nullptr;
    if (all->shape().IsTuple()) { KRAFLA_ASSIGN(value, AddGetTupleElement(computation, all, n)); }
    if (of.roots == nullptr) {
      root = AddScalarConstant(computation, ElementType::kS32, 0);
    } else {
      KRAFLA_ASSIGN(root, NumberAt(computation, of.roots, n));
    }
    const Dims dims = value->shape().dims();
    KRAFLA_ASSIGN(Instruction * here, AddInferred(computation, Opcode::kCompare, {rank, root},
                                                  CompareAttributes{ComparisonDirection::kEq, {}}));
    KRAFLA_ASSIGN(here, AddBroadcastScalar(computation, here, dims));
    KRAFLA_ASSIGN(
        Instruction * none,
        AddBroadcastScalar(computation, AddScalarConstant(computation, value->shape().element_type(), 0), dims));
    KRAFLA_ASSIGN(body.values[op.results[i]], AddInferred(computation, Opcode::kSelect, {here, value, none}));
  }
  return {};
}

}  // namespace

Result<bool> ConvertRooted(Converter& c, const Op& op, Body& body) {
  const bool reduces = op.name == "collective_reduce";
  if (!reduces && op.name != "collective_broadcast") return false;
  KRAFLA_ASSIGN(Rooted of, OperandsOf(c, op, body));
  if (!reduces && of.roots == nullptr) return false;
  KRAFLA_TRY(reduces ? Reduce(c, op, body, of) : BroadcastFromRoot(c, op, body, of));
  return true;
}

}  // namespace krafla::stablehlo
