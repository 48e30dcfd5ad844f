// SPDX-License-Identifier: Apache-2.0
// Packs temporaries into the arena. Two of them share bytes only if they are never alive at the same step.
#pragma once

#include <cstdint>
#include <span>

#include "base/guards.h"

namespace krafla::plan {

struct LiveRange {
  int64_t size = 0;         // bytes
  int first = 0, last = 0;  // steps, both included
  int64_t offset = 0;       // bytes from the start of the arena, which PackArena sets
};

inline constexpr int64_t kArenaAlignment = 256;

struct ArenaSize {
  int64_t bytes = 0;
  int64_t largest_live_set = 0;  // what no packing could go below
};
// Places the largest range first, each at the lowest offset where it overlaps no range that is alive at the same time.
// Where so many are alive together that this would take too long, ranges are placed in the order in which they begin.
ArenaSize PackArena(std::span<LiveRange> ranges);
// Each at pages of its own with a guard behind them, whenever they are alive; the sum is a multiple of kGuardBytes.
ArenaSize PlaceApart(std::span<LiveRange> ranges, Guards guards);

}  // namespace krafla::plan
