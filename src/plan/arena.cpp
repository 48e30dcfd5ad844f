// SPDX-License-Identifier: Apache-2.0
#include "plan/arena.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/checked_math.h"

namespace krafla::plan {

ArenaSize PackArena(std::span<LiveRange> ranges) {
  ArenaSize out;
  std::vector<LiveRange*> order;
  std::map<int, int64_t> change;
  for (LiveRange& r : ranges) {
    if (r.size == 0) continue;
    order.push_back(&r);
    int64_t size = RoundUp(r.size, kArenaAlignment);
    change[r.first] += size;
    change[r.last + 1] -= size;
  }
  int64_t live = 0;
  for (const auto& [step, delta] : change) out.largest_live_set = std::max(out.largest_live_set, live += delta);

  std::stable_sort(order.begin(), order.end(), [](const LiveRange* a, const LiveRange* b) {
    return a->size != b->size ? a->size > b->size : a->first < b->first;
  });
  std::vector<LiveRange*> placed;  // by rising offset
  for (LiveRange* r : order) {
    int64_t size = RoundUp(r->size, kArenaAlignment);
    int64_t at = 0;
    for (const LiveRange* p : placed) {
      if (p->last < r->first || r->last < p->first) continue;
      if (at + size <= p->offset) break;
      at = std::max(at, p->offset + RoundUp(p->size, kArenaAlignment));
    }
    r->offset = at;
    out.bytes = std::max(out.bytes, at + size);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), r,
                                   [](const LiveRange* a, const LiveRange* b) { return a->offset < b->offset; }),
                  r);
  }
  return out;
}

}  // namespace krafla::plan
