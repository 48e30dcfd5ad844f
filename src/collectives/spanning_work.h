// SPDX-License-Identifier: Apache-2.0
// One member's part of one collective over several processes.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "collectives/collective.h"
#include "collectives/packed.h"
#include "transport/world.h"

namespace krafla {

struct SpanningWork {
  const Collective& collective;
  int group;
  std::size_t rank;
  const Contribution& own;
  transport::Patience patience;
};

// Outcome of a wait: empty, or what ended it. Late and failed waits are told apart by their code, and `missing` are
// ranks of the group that had not come.
struct SpanningOutcome {
  Result<> result;
  std::vector<std::size_t> missing;
};

// As within a process, where rows[m] are the operands of the group's member m, each as `operands` packs them.
Result<> RunOnAllOperands(const SpanningWork& work, const Packed& operands,
                          const std::vector<std::vector<std::byte>>& rows);

// windows[m]: of the group's member m.
SpanningOutcome RunInWindows(const SpanningWork& work, transport::SharedWindows& windows,
                             std::span<const std::size_t> slots, uint32_t signature,
                             const std::function<Result<>()>& failure);

// ranks[m], addresses[m]: the process and the number in the world of the group's member m.
SpanningOutcome RunByMessages(const SpanningWork& work, transport::World& world, std::span<const int> ranks,
                              std::span<const uint32_t> addresses, uint32_t signature);

}  // namespace krafla
