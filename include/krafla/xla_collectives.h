// SPDX-License-Identifier: Apache-2.0
// Calls of the builder between devices, with the host, and in two halves. Replica groups left empty mean all replicas
// in one group.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "krafla/xla_builder.h"

KRAFLA_EXPORT_BEGIN
namespace krafla {

XlaOp ReplicaId(XlaBuilder* builder);
XlaOp PartitionId(XlaBuilder* builder);

XlaOp CrossReplicaSum(XlaOp operand, Span<ReplicaGroup> replica_groups = {});
// A tuple of arrays is reduced array by array.
XlaOp AllReduce(XlaOp operand, const ComputationOrError& computation, Span<ReplicaGroup> replica_groups = {},
                const std::optional<ChannelHandle>& channel_id = std::nullopt,
                const std::optional<Shape>& shape_with_layout = std::nullopt,
                std::optional<bool> use_global_device_ids = std::nullopt);
XlaOp AllReduceTuple(Span<XlaOp> operands, const ComputationOrError& computation,
                     Span<ReplicaGroup> replica_groups = {},
                     const std::optional<ChannelHandle>& channel_id = std::nullopt,
                     const std::optional<Shape>& shape_with_layout = std::nullopt,
                     std::optional<bool> use_global_device_ids = std::nullopt);
XlaOp AllGather(XlaOp operand, int64_t all_gather_dimension, int64_t shard_count,
                Span<ReplicaGroup> replica_groups = {}, const std::optional<ChannelHandle>& channel_id = std::nullopt,
                const std::optional<Layout>& layout = std::nullopt,
                std::optional<bool> use_global_device_ids = std::nullopt);
XlaOp AllGatherTuple(Span<XlaOp> operands, int64_t all_gather_dimension, int64_t shard_count,
                     Span<ReplicaGroup> replica_groups = {},
                     const std::optional<ChannelHandle>& channel_id = std::nullopt,
                     const std::optional<Layout>& layout = std::nullopt,
                     std::optional<bool> use_global_device_ids = std::nullopt);
XlaOp ReduceScatter(XlaOp operand, const ComputationOrError& computation, int64_t scatter_dimension,
                    int64_t shard_count, Span<ReplicaGroup> replica_groups = {},
                    const std::optional<ChannelHandle>& channel_id = std::nullopt,
                    const std::optional<Layout>& layout = std::nullopt,
                    std::optional<bool> use_global_device_ids = std::nullopt);
XlaOp AllToAll(XlaOp operand, int64_t split_dimension, int64_t concat_dimension, int64_t split_count,
               Span<ReplicaGroup> replica_groups = {}, const std::optional<Layout>& layout = std::nullopt,
               const std::optional<ChannelHandle>& channel_id = std::nullopt);
XlaOp AllToAllTuple(Span<XlaOp> operands, Span<ReplicaGroup> replica_groups = {},
                    const std::optional<Layout>& layout = std::nullopt,
                    const std::optional<ChannelHandle>& channel_id = std::nullopt);
XlaOp RaggedAllToAll(XlaOp input, XlaOp input_offsets, XlaOp send_sizes, XlaOp output, XlaOp output_offsets,
                     XlaOp recv_sizes, Span<ReplicaGroup> replica_groups = {},
                     const std::optional<ChannelHandle>& channel_id = std::nullopt);
XlaOp CollectiveBroadcast(XlaOp operand, Span<ReplicaGroup> replica_groups,
                          const std::optional<ChannelHandle>& channel_id = std::nullopt);
XlaOp CollectivePermute(XlaOp operand, const std::vector<std::pair<int64_t, int64_t>>& source_target_pairs,
                        const std::optional<ChannelHandle>& channel_id = std::nullopt);
XlaOp MultiCollectivePermute(Span<XlaOp> operands, const std::vector<std::pair<int64_t, int64_t>>& source_target_pairs,
                             const std::optional<ChannelHandle>& channel_id = std::nullopt);

// Two halves: what lies between them may run meanwhile.
XlaOp AllReduceStart(XlaOp operand, const ComputationOrError& computation, Span<ReplicaGroup> replica_groups = {},
                     const std::optional<ChannelHandle>& channel_id = std::nullopt,
                     std::optional<bool> use_global_device_ids = std::nullopt);
XlaOp AllReduceDone(XlaOp start);
XlaOp AllGatherStart(XlaOp operand, int64_t all_gather_dimension, int64_t shard_count,
                     Span<ReplicaGroup> replica_groups = {},
                     const std::optional<ChannelHandle>& channel_id = std::nullopt,
                     std::optional<bool> use_global_device_ids = std::nullopt);
XlaOp AllGatherDone(XlaOp start);
XlaOp CollectivePermuteStart(XlaOp operand, const std::vector<std::pair<int64_t, int64_t>>& source_target_pairs,
                             const std::optional<ChannelHandle>& channel_id = std::nullopt);
XlaOp CollectivePermuteDone(XlaOp start);
XlaOp CopyStart(XlaOp operand);
XlaOp CopyDone(XlaOp start);
XlaOp AsyncStart(XlaBuilder* builder, Span<XlaOp> operands, std::string_view execution_thread,
                 const ComputationOrError& computation);
XlaOp AsyncUpdate(XlaOp start);
XlaOp AsyncDone(XlaOp start);

// Tokens order what talks to the world.
XlaOp CreateToken(XlaBuilder* builder);
XlaOp AfterAll(XlaBuilder* builder, Span<XlaOp> tokens);
XlaOp AddDependency(XlaOp operand, XlaOp token);

XlaOp Infeed(XlaBuilder* builder, const ShapeOrError& shape, std::string_view config = "");
XlaOp InfeedWithToken(XlaOp token, const ShapeOrError& shape, std::string_view config = "");  // a tuple: data, token
void Outfeed(XlaOp operand, const ShapeOrError& shape_with_layout, std::string_view outfeed_config);
XlaOp OutfeedWithToken(XlaOp operand, XlaOp token, const ShapeOrError& shape_with_layout,
                       std::string_view outfeed_config);
void Send(XlaOp operand, const ChannelHandle& handle);
XlaOp SendWithToken(XlaOp operand, XlaOp token, const ChannelHandle& handle);
XlaOp Recv(XlaBuilder* builder, const ShapeOrError& shape, const ChannelHandle& handle);
XlaOp RecvWithToken(XlaOp token, const ShapeOrError& shape, const ChannelHandle& handle);  // a tuple: data, token
XlaOp SendToHost(XlaOp operand, XlaOp token, const ShapeOrError& shape_with_layout, const ChannelHandle& handle);
XlaOp RecvFromHost(XlaOp token, const ShapeOrError& shape, const ChannelHandle& handle);

}  // namespace krafla
KRAFLA_EXPORT_END
