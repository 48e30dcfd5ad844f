// SPDX-License-Identifier: Apache-2.0
// Where temporaries lie in the arena: two share bytes only when they are never alive together.
#pragma once

#include <cstdint>
#include <span>

namespace krafla::plan {

struct LiveRange {
  int64_t size = 0;         // bytes
  int first = 0, last = 0;  // steps, both included
  int64_t offset = 0;       // out
};

inline constexpr int64_t kArenaAlignment = 256;

struct ArenaSize {
  int64_t bytes = 0;
  int64_t largest_live_set = 0;  // what no packing could go below
};
// Places the largest first, each at the lowest offset where it meets none that is alive with it; where so many are
// alive together that this would take too long, in the order of time.
ArenaSize PackArena(std::span<LiveRange> ranges);

}  // namespace krafla::plan
