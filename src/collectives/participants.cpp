// SPDX-License-Identifier: Apache-2.0
#include "collectives/participants.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "base/index.h"

namespace krafla {
namespace {

// XLA: GetCollectiveOpGroupMode in collective_ops_utils.cc. Ops that know use_global_device_ids work across both
// replicas and partitions with it off; for the others a channel means partitions.
CollectiveMode ModeOf(Opcode opcode, const CollectiveAttributes& a) {
  if (!a.channel_id) return CollectiveMode::kCrossReplica;
  if (a.use_global_device_ids) return CollectiveMode::kFlattenedId;
  bool knows_global_ids = opcode == Opcode::kAllGather || opcode == Opcode::kAllGatherStart ||
                          opcode == Opcode::kAllReduce || opcode == Opcode::kAllReduceStart ||
                          opcode == Opcode::kReduceScatter;
  return knows_global_ids ? CollectiveMode::kCrossReplicaAndPartition : CollectiveMode::kCrossPartition;
}

Result<> CheckId(const Instruction& i, const char* what, int64_t id, int64_t count) {
  if (id >= 0 && id < count) return {};
  return InvalidArgument("{}: It names {} {}, but the program runs with {}.", Describe(i), what, id, count);
}

// "{{0,1},{1,0}}": its numbers in order, or nothing.
std::optional<std::vector<int64_t>> Numbers(std::string_view text) {
  std::vector<int64_t> out;
  int depth = 0;
  while (!text.empty()) {
    char c = text.front();
    if (c >= '0' && c <= '9') {
      int64_t v = 0;
      auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
      if (error != std::errc()) return std::nullopt;
      out.push_back(v);
      text.remove_prefix(static_cast<std::size_t>(end - text.data()));
      continue;
    }
    if (c == '{') ++depth;
    if (c == '}' && --depth < 0) return std::nullopt;
    if (c != '{' && c != '}' && c != ',' && c != ' ') return std::nullopt;
    text.remove_prefix(1);
  }
  if (depth != 0) return std::nullopt;
  return out;
}

// The value of `key` in the text of frontend attributes, without its quotes; empty where there is none.
std::string_view FrontendAttribute(std::string_view attributes, std::string_view key) {
  std::size_t at = attributes.find(key);
  if (at == attributes.npos) return {};
  attributes.remove_prefix(at + key.size());
  if (!attributes.starts_with("=\"")) return {};
  attributes.remove_prefix(2);
  std::size_t end = attributes.find('"');
  return end == attributes.npos ? std::string_view() : attributes.substr(0, end);
}

// Pairs of replicas in each partition, or of partitions in each replica, as pairs of devices.
Result<std::vector<std::pair<int64_t, int64_t>>> Spread(const Instruction& i,
                                                        const std::vector<std::pair<int64_t, int64_t>>& pairs,
                                                        bool of_partitions, const DeviceGrid& grid) {
  std::vector<std::pair<int64_t, int64_t>> out;
  std::vector<bool> is_target(At(grid.size())), is_source(At(grid.size()));
  auto add = [&](int64_t source, int64_t target) -> Result<> {
    if (is_source[At(source)] || is_target[At(target)])
      return InvalidArgument("{}: A device sends twice or receives twice.", Describe(i));
    is_source[At(source)] = is_target[At(target)] = true;
    out.emplace_back(source, target);
    return {};
  };
  const int64_t count = of_partitions ? grid.partitions : grid.replicas;
  const int64_t times = of_partitions ? grid.replicas : grid.partitions;
  const char* word = of_partitions ? "partition" : "replica";
  for (auto [source, target] : pairs) {
    KRAFLA_TRY(CheckId(i, word, source, count));
    KRAFLA_TRY(CheckId(i, word, target, count));
    for (int64_t n = 0; n < times; ++n)
      KRAFLA_TRY(of_partitions ? add(grid.device(n, source), grid.device(n, target))
                               : add(grid.device(source, n), grid.device(target, n)));
  }
  return out;
}

// XLA reads the pairs of a send with a channel as partitions. Texts for replicas give channels too: with one partition
// replicas are meant.
Result<std::vector<std::pair<int64_t, int64_t>>> ChannelPairs(const Instruction& i, const DeviceGrid& grid) {
  constexpr std::string_view kKey = "_xla_send_recv_source_target_pairs";
  std::string_view text = FrontendAttribute(i.metadata().frontend_attributes, kKey);
  if (text.empty() && i.opcode() == Opcode::kRecvDone)
    text = FrontendAttribute(i.operand(0)->metadata().frontend_attributes, kKey);
  std::vector<std::pair<int64_t, int64_t>> pairs;
  if (text.empty()) {
    if (grid.size() != 2)
      return InvalidArgument("{}: With {} devices the frontend attribute {} must name the source and target pairs.",
                             Describe(i), grid.size(), kKey);
    pairs = {{0, 1}, {1, 0}};
  } else {
    auto numbers = Numbers(text);
    if (!numbers || numbers->size() % 2 != 0)
      return InvalidArgument("{}: '{}' is not a list of pairs.", Describe(i), text.substr(0, 80));
    for (std::size_t n = 0; n < numbers->size(); n += 2) pairs.emplace_back((*numbers)[n], (*numbers)[n + 1]);
  }
  return Spread(i, pairs, grid.partitions > 1, grid);
}

}  // namespace

bool IsExchange(Opcode opcode) {
  return (HasTrait(opcode, op_trait::kCollective) && !HasTrait(opcode, op_trait::kAsyncDone)) ||
         opcode == Opcode::kSend || opcode == Opcode::kRecvDone;
}

bool IsBetweenDevices(Opcode opcode) {
  return HasTrait(opcode, op_trait::kCollective) || opcode == Opcode::kSend || opcode == Opcode::kSendDone ||
         opcode == Opcode::kRecv || opcode == Opcode::kRecvDone;
}

Result<std::vector<std::vector<int64_t>>> DeviceGroups(const Instruction& i, const DeviceGrid& grid) {
  const auto& a = i.attr<CollectiveAttributes>();
  const CollectiveMode mode = ModeOf(i.opcode(), a);
  std::vector<std::vector<int64_t>> ids = a.replica_groups;
  const int64_t count = mode == CollectiveMode::kFlattenedId      ? grid.size()
                        : mode == CollectiveMode::kCrossPartition ? grid.partitions
                                                                  : grid.replicas;
  const char* word = mode == CollectiveMode::kFlattenedId      ? "device"
                     : mode == CollectiveMode::kCrossPartition ? "partition"
                                                               : "replica";
  if (ids.empty()) {
    ids.emplace_back();
    for (int64_t id = 0; id < count; ++id) ids[0].push_back(id);
  }
  for (const auto& group : ids)
    for (int64_t id : group) KRAFLA_TRY(CheckId(i, word, id, count));
  std::vector<std::vector<int64_t>> out;
  switch (mode) {
    case CollectiveMode::kFlattenedId: out = ids; break;
    case CollectiveMode::kCrossReplica:
      for (const auto& group : ids)
        for (int64_t p = 0; p < grid.partitions; ++p) {
          out.emplace_back();
          for (int64_t r : group) out.back().push_back(grid.device(r, p));
        }
      break;
    case CollectiveMode::kCrossPartition:
      for (const auto& group : ids)
        for (int64_t r = 0; r < grid.replicas; ++r) {
          out.emplace_back();
          for (int64_t p : group) out.back().push_back(grid.device(r, p));
        }
      break;
    case CollectiveMode::kCrossReplicaAndPartition:
      for (const auto& group : ids) {
        out.emplace_back();
        for (int64_t r : group)
          for (int64_t p = 0; p < grid.partitions; ++p) out.back().push_back(grid.device(r, p));
      }
      break;
  }
  std::vector<bool> seen(At(grid.size()));
  for (const auto& group : out)
    for (int64_t d : group) {
      if (seen[At(d)]) return InvalidArgument("{}: Device {} is named twice in the replica groups.", Describe(i), d);
      seen[At(d)] = true;
    }
  return out;
}

Result<std::vector<std::pair<int64_t, int64_t>>> DevicePairs(const Instruction& i, const DeviceGrid& grid) {
  const auto* a = std::get_if<CollectiveAttributes>(&i.attributes());
  if (a == nullptr) return ChannelPairs(i, grid);
  return Spread(i, a->source_target_pairs, ModeOf(i.opcode(), *a) == CollectiveMode::kCrossPartition, grid);
}

}  // namespace krafla
