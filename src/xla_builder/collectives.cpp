// SPDX-License-Identifier: Apache-2.0
// Calls between devices.
#include <format>
#include <numeric>

#include "ir/shape_rules/checks.h"
#include "xla_builder/impl.h"

namespace krafla {

using namespace xla_builder;  // NOLINT: the calls are made of its parts
using shape_rules::Brief;

namespace {

struct Collective {
  Span<ReplicaGroup> groups;
  const std::optional<ChannelHandle>& channel;
  std::optional<bool> global_ids = std::nullopt;
  std::optional<int64_t> dimension = std::nullopt;
  bool constrain_layout = false;
};

CollectiveAttributes ToAttributes(const Collective& c) {
  CollectiveAttributes out;
  for (const ReplicaGroup& group : c.groups) out.replica_groups.push_back(group.replica_ids);
  if (c.channel) out.channel_id = c.channel->handle;
  out.use_global_device_ids = c.global_ids.value_or(false);
  out.dimension = c.dimension;
  out.constrain_layout = c.constrain_layout;
  return out;
}

// The count that the caller says a group has. Where no group is written and the builder was not told of more than one
// device, the count stands for one group of that many.
Result<> ApplyCount(const Impl& b, const char* what, int64_t count, CollectiveAttributes& a) {
  if (count < 1 || count > kMaxDevices)
    return InvalidArgument("{} must lie in [1, {}], it is {}.", what, kMaxDevices, count);
  if (a.replica_groups.empty() && b.replica_count == 1 && b.num_partitions == 1 && count > 1) {
    std::vector<int64_t> all(static_cast<std::size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    a.replica_groups.push_back(std::move(all));
  }
  return {};
}

// A result dimension of `ratio` times that of the operand confirms the count.
Result<> CheckCount(const char* what, int64_t count, int64_t whole, int64_t part) {
  if (part == 0 || whole == part * count) return {};
  return InvalidArgument("{} is {}, the groups have {} devices.", what, count, whole / part);
}

std::optional<int64_t> ChannelOf(const std::optional<ChannelHandle>& channel) {
  if (!channel) return std::nullopt;
  return channel->handle;
}

// `x + y` for scalars of a type; logical or for pred.
Result<Computation*> Adder(Impl& b, ElementType type) {
  XlaBuilder sum("add");
  Shape scalar = Shape::MakeScalar(type);
  Add(Parameter(&sum, 0, scalar, "x"), Parameter(&sum, 1, scalar, "y"));
  return b.Import(sum.Build());
}

// Arrays reduced together have one element type in HLO; a tuple's elements are reduced one by one where they differ.
Result<Instruction*> ReduceAcross(Impl& b, std::vector<Instruction*> arrays, Computation* f,
                                  const CollectiveAttributes& a, Opcode opcode, const Shape* layout) {
  if (layout == nullptr) return b.Add(opcode, std::move(arrays), a, {f});
  KRAFLA_ASSIGN(Shape inferred, InferShape(*b.computation, opcode, arrays, a, std::span(&f, 1)));
  if (!Shape::Compatible(*layout, inferred))
    return InvalidArgument("shape_with_layout is {}, the result is {}.", Brief(*layout), Brief(inferred));
  CollectiveAttributes constrained = a;
  constrained.constrain_layout = true;
  return b.Add(opcode, std::move(arrays), std::move(constrained), {f}, layout);
}

Result<Instruction*> WithLayout(Impl& b, Opcode opcode, Instructions ops, CollectiveAttributes a,
                                std::vector<Computation*> called, const std::optional<Layout>& layout) {
  if (!layout) return b.Add(opcode, ToVector(ops), std::move(a), std::move(called));
  a.constrain_layout = true;
  KRAFLA_ASSIGN(Shape shape, InferShape(*b.computation, opcode, ops, a, called));
  KRAFLA_TRY(shape.SetLayout(*layout));
  return b.Add(opcode, ToVector(ops), std::move(a), std::move(called), &shape);
}

XlaOp GatherAcross(const char* call, Opcode opcode, Span<XlaOp> operands, int64_t dimension, int64_t shard_count,
                   const Collective& c, const std::optional<Layout>& layout) {
  return Run(call, nullptr, operands, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    CollectiveAttributes a = ToAttributes(c);
    a.dimension = dimension;
    KRAFLA_TRY(ApplyCount(b, "shard_count", shard_count, a));
    KRAFLA_ASSIGN(Instruction * out, WithLayout(b, opcode, ops, std::move(a), {}, layout));
    const Shape* result = &out->shape();
    if (opcode == Opcode::kAllGatherStart) result = &result->tuple_elements()[1];
    if (result->IsTuple()) result = &result->tuple_elements()[0];
    KRAFLA_TRY(CheckCount("shard_count", shard_count, result->dim(dimension), ops[0]->shape().dim(dimension)));
    return out;
  });
}

CollectiveAttributes PairAttributes(const std::vector<std::pair<int64_t, int64_t>>& pairs,
                                    const std::optional<ChannelHandle>& channel) {
  CollectiveAttributes out;
  out.source_target_pairs = pairs;
  out.channel_id = ChannelOf(channel);
  return out;
}

}  // namespace

XlaOp ReplicaId(XlaBuilder* builder) { return RunOp("ReplicaId", builder, {}, Opcode::kReplicaId); }
XlaOp PartitionId(XlaBuilder* builder) { return RunOp("PartitionId", builder, {}, Opcode::kPartitionId); }

XlaOp CrossReplicaSum(XlaOp operand, Span<ReplicaGroup> replica_groups) {
  return Run("CrossReplicaSum", nullptr, {operand}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(const Shape* x, ArrayShape(*ops[0], "The operand"));
    KRAFLA_ASSIGN(Computation * f, Adder(b, x->element_type()));
    return b.Add(Opcode::kAllReduce, ToVector(ops), ToAttributes({replica_groups, std::nullopt}), {f});
  });
}

XlaOp AllReduce(XlaOp operand, const ComputationOrError& computation, Span<ReplicaGroup> replica_groups,
                const std::optional<ChannelHandle>& channel_id, const std::optional<Shape>& shape_with_layout,
                std::optional<bool> use_global_device_ids) {
  return Run("AllReduce", nullptr, {operand}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(Computation * f, b.Import(computation));
    CollectiveAttributes a = ToAttributes({replica_groups, channel_id, use_global_device_ids});
    const Shape* layout = shape_with_layout ? &*shape_with_layout : nullptr;
    if (!ops[0]->shape().IsTuple()) return ReduceAcross(b, ToVector(ops), f, a, Opcode::kAllReduce, layout);
    std::vector<Instruction*> arrays;
    int64_t count = static_cast<int64_t>(ops[0]->shape().tuple_elements().size());
    for (int64_t i = 0; i < count; ++i) {
      KRAFLA_ASSIGN(Instruction * array, b.Add(Opcode::kGetTupleElement, {ops[0]}, TupleIndexAttributes{i}));
      arrays.push_back(array);
    }
    if (arrays.empty()) return InvalidArgument("The tuple has no arrays to reduce.");
    KRAFLA_ASSIGN(Instruction * out, ReduceAcross(b, std::move(arrays), f, a, Opcode::kAllReduce, layout));
    if (count > 1) return out;
    return b.Add(Opcode::kTuple, {out});  // a tuple of one stays one
  });
}

XlaOp AllReduceTuple(Span<XlaOp> operands, const ComputationOrError& computation, Span<ReplicaGroup> replica_groups,
                     const std::optional<ChannelHandle>& channel_id, const std::optional<Shape>& shape_with_layout,
                     std::optional<bool> use_global_device_ids) {
  return Run("AllReduceTuple", nullptr, operands, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(Computation * f, b.Import(computation));
    return ReduceAcross(b, ToVector(ops), f, ToAttributes({replica_groups, channel_id, use_global_device_ids}),
                        Opcode::kAllReduce, shape_with_layout ? &*shape_with_layout : nullptr);
  });
}

XlaOp AllGather(XlaOp operand, int64_t all_gather_dimension, int64_t shard_count, Span<ReplicaGroup> replica_groups,
                const std::optional<ChannelHandle>& channel_id, const std::optional<Layout>& layout,
                std::optional<bool> use_global_device_ids) {
  return GatherAcross("AllGather", Opcode::kAllGather, {operand}, all_gather_dimension, shard_count,
                      {replica_groups, channel_id, use_global_device_ids}, layout);
}
XlaOp AllGatherTuple(Span<XlaOp> operands, int64_t all_gather_dimension, int64_t shard_count,
                     Span<ReplicaGroup> replica_groups, const std::optional<ChannelHandle>& channel_id,
                     const std::optional<Layout>& layout, std::optional<bool> use_global_device_ids) {
  return GatherAcross("AllGatherTuple", Opcode::kAllGather, operands, all_gather_dimension, shard_count,
                      {replica_groups, channel_id, use_global_device_ids}, layout);
}

XlaOp ReduceScatter(XlaOp operand, const ComputationOrError& computation, int64_t scatter_dimension,
                    int64_t shard_count, Span<ReplicaGroup> replica_groups,
                    const std::optional<ChannelHandle>& channel_id, const std::optional<Layout>& layout,
                    std::optional<bool> use_global_device_ids) {
  return Run("ReduceScatter", nullptr, {operand}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(Computation * f, b.Import(computation));
    CollectiveAttributes a = ToAttributes({replica_groups, channel_id, use_global_device_ids, scatter_dimension});
    KRAFLA_TRY(ApplyCount(b, "shard_count", shard_count, a));
    KRAFLA_ASSIGN(Instruction * out, WithLayout(b, Opcode::kReduceScatter, ops, std::move(a), {f}, layout));
    KRAFLA_TRY(CheckCount("shard_count", shard_count, ops[0]->shape().dim(scatter_dimension),
                          out->shape().dim(scatter_dimension)));
    return out;
  });
}

// Blocks of split_dimension go round; what arrives is laid side by side along concat_dimension.
XlaOp AllToAll(XlaOp operand, int64_t split_dimension, int64_t concat_dimension, int64_t split_count,
               Span<ReplicaGroup> replica_groups, const std::optional<Layout>& layout,
               const std::optional<ChannelHandle>& channel_id) {
  return Run("AllToAll", nullptr, {operand}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(const Shape* x, ArrayShape(*ops[0], "The operand"));
    KRAFLA_TRY(CheckDimension("split_dimension", split_dimension, x->rank()));
    KRAFLA_TRY(CheckDimension("concat_dimension", concat_dimension, x->rank()));
    CollectiveAttributes a = ToAttributes({replica_groups, channel_id, std::nullopt, split_dimension});
    KRAFLA_TRY(ApplyCount(b, "split_count", split_count, a));
    for (const std::vector<int64_t>& group : a.replica_groups)
      if (static_cast<int64_t>(group.size()) != split_count)
        return InvalidArgument("split_count is {}, a group has {} devices.", split_count, group.size());
    if (x->dim(split_dimension) % split_count != 0)
      return InvalidArgument("Dimension {} of {} does not split into {} equal blocks.", split_dimension, Brief(*x),
                             split_count);
    KRAFLA_ASSIGN(Instruction * out, WithLayout(b, Opcode::kAllToAll, ops, std::move(a), {}, layout));
    if (split_dimension == concat_dimension) return out;
    Dims split, permutation, result = x->dims();
    for (int64_t i = 0; i < x->rank(); ++i) {
      if (i == split_dimension) split.push_back(split_count);
      split.push_back(i == split_dimension ? x->dim(i) / split_count : x->dim(i));
      if (i == concat_dimension) permutation.push_back(split_dimension);
      permutation.push_back(i >= split_dimension ? i + 1 : i);
    }
    result[static_cast<std::size_t>(split_dimension)] /= split_count;
    result[static_cast<std::size_t>(concat_dimension)] *= split_count;
    KRAFLA_ASSIGN(Shape blocks, Shape::MakeArray(x->element_type(), split));
    KRAFLA_ASSIGN(out, b.Add(Opcode::kReshape, {out}, {}, {}, &blocks));
    KRAFLA_ASSIGN(out, b.Add(Opcode::kTranspose, {out}, DimensionsAttributes{permutation}));
    KRAFLA_ASSIGN(Shape joined, Shape::MakeArray(x->element_type(), result));
    return b.Add(Opcode::kReshape, {out}, {}, {}, &joined);
  });
}

XlaOp AllToAllTuple(Span<XlaOp> operands, Span<ReplicaGroup> replica_groups, const std::optional<Layout>& layout,
                    const std::optional<ChannelHandle>& channel_id) {
  return Run("AllToAllTuple", nullptr, operands, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    if (layout) return Unimplemented("A layout for the elements of an all-to-all tuple is not supported.");
    CollectiveAttributes a = ToAttributes({replica_groups, channel_id});
    KRAFLA_TRY(ApplyCount(b, "The number of operands", static_cast<int64_t>(ops.size()), a));
    return b.Add(Opcode::kAllToAll, ToVector(ops), std::move(a));
  });
}

XlaOp RaggedAllToAll(XlaOp input, XlaOp input_offsets, XlaOp send_sizes, XlaOp output, XlaOp output_offsets,
                     XlaOp recv_sizes, Span<ReplicaGroup> replica_groups,
                     const std::optional<ChannelHandle>& channel_id) {
  // HLO's order of operands is another one.
  return RunOp("RaggedAllToAll", nullptr, {input, output, input_offsets, send_sizes, output_offsets, recv_sizes},
               Opcode::kRaggedAllToAll, ToAttributes({replica_groups, channel_id}));
}

XlaOp CollectiveBroadcast(XlaOp operand, Span<ReplicaGroup> replica_groups,
                          const std::optional<ChannelHandle>& channel_id) {
  return RunOp("CollectiveBroadcast", nullptr, {operand}, Opcode::kCollectiveBroadcast,
               ToAttributes({replica_groups, channel_id}));
}

XlaOp CollectivePermute(XlaOp operand, const std::vector<std::pair<int64_t, int64_t>>& source_target_pairs,
                        const std::optional<ChannelHandle>& channel_id) {
  return RunOp("CollectivePermute", nullptr, {operand}, Opcode::kCollectivePermute,
               PairAttributes(source_target_pairs, channel_id));
}
XlaOp MultiCollectivePermute(Span<XlaOp> operands, const std::vector<std::pair<int64_t, int64_t>>& source_target_pairs,
                             const std::optional<ChannelHandle>& channel_id) {
  return RunOp("MultiCollectivePermute", nullptr, operands, Opcode::kCollectivePermute,
               PairAttributes(source_target_pairs, channel_id));
}

XlaOp AllReduceStart(XlaOp operand, const ComputationOrError& computation, Span<ReplicaGroup> replica_groups,
                     const std::optional<ChannelHandle>& channel_id, std::optional<bool> use_global_device_ids) {
  return Run("AllReduceStart", nullptr, {operand}, [&](Impl& b, Instructions ops) -> Result<Instruction*> {
    KRAFLA_ASSIGN(Computation * f, b.Import(computation));
    return ReduceAcross(b, ToVector(ops), f, ToAttributes({replica_groups, channel_id, use_global_device_ids}),
                        Opcode::kAllReduceStart, nullptr);
  });
}
XlaOp AllReduceDone(XlaOp start) { return RunOp("AllReduceDone", nullptr, {start}, Opcode::kAllReduceDone); }

XlaOp AllGatherStart(XlaOp operand, int64_t all_gather_dimension, int64_t shard_count,
                     Span<ReplicaGroup> replica_groups, const std::optional<ChannelHandle>& channel_id,
                     std::optional<bool> use_global_device_ids) {
  return GatherAcross("AllGatherStart", Opcode::kAllGatherStart, {operand}, all_gather_dimension, shard_count,
                      {replica_groups, channel_id, use_global_device_ids}, std::nullopt);
}
XlaOp AllGatherDone(XlaOp start) { return RunOp("AllGatherDone", nullptr, {start}, Opcode::kAllGatherDone); }

XlaOp CollectivePermuteStart(XlaOp operand, const std::vector<std::pair<int64_t, int64_t>>& source_target_pairs,
                             const std::optional<ChannelHandle>& channel_id) {
  return RunOp("CollectivePermuteStart", nullptr, {operand}, Opcode::kCollectivePermuteStart,
               PairAttributes(source_target_pairs, channel_id));
}
XlaOp CollectivePermuteDone(XlaOp start) {
  return RunOp("CollectivePermuteDone", nullptr, {start}, Opcode::kCollectivePermuteDone);
}

}  // namespace krafla
