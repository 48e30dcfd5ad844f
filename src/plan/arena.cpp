// SPDX-License-Identifier: Apache-2.0
#include "plan/arena.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/checked_math.h"
#include "base/work.h"

namespace krafla::plan {

namespace {

// What arguments and results begin at, too, so that no kernel may count on more.
constexpr int64_t kGuardedAlignment = 64;

int64_t Rounded(const LiveRange& r) { return RoundUp(r.size, kArenaAlignment); }

// The ranges that have been placed, found by the steps at which they are alive.
class Placed {
 public:
  // `steps`: the number of steps.
  explicit Placed(std::size_t steps) : begins_(steps) {
    while (leaves_ < steps) leaves_ *= 2;
    nodes_.resize(2 * leaves_);
  }

  void Add(const LiveRange* r, int first, int last) {
    begins_[static_cast<std::size_t>(first)].push_back(r);
    // The nodes of the tree that together cover [first, last].
    std::size_t a = leaves_ + static_cast<std::size_t>(first), b = leaves_ + static_cast<std::size_t>(last) + 1;
    for (; a < b; a /= 2, b /= 2) {
      if (a % 2 == 1) nodes_[a++].push_back(r);
      if (b % 2 == 1) nodes_[--b].push_back(r);
    }
  }

  // The ranges that are alive at any step of [first, last]: they are alive at its first step or begin later in it.
  std::vector<const LiveRange*> AliveWith(int first, int last, int64_t& work) const {
    std::vector<const LiveRange*> out;
    for (std::size_t n = leaves_ + static_cast<std::size_t>(first); n > 0; n /= 2)
      out.insert(out.end(), nodes_[n].begin(), nodes_[n].end());
    for (int step = first + 1; step <= last; ++step) {
      const auto& begun = begins_[static_cast<std::size_t>(step)];
      out.insert(out.end(), begun.begin(), begun.end());
    }
    work += last - first + static_cast<int64_t>(out.size());
    CountWork(last - first + static_cast<int64_t>(out.size()));
    return out;
  }

 private:
  std::size_t leaves_ = 1;
  std::vector<std::vector<const LiveRange*>> nodes_, begins_;
};

// Places the largest range first, each at the lowest offset where it overlaps none that is alive with it. Gives nothing
// where that takes more than `most_work` comparisons with placed ranges.
std::optional<int64_t> PackBySize(std::vector<LiveRange*> order, int64_t most_work) {
  std::stable_sort(order.begin(), order.end(), [](const LiveRange* a, const LiveRange* b) {
    return a->size != b->size ? a->size > b->size : a->first < b->first;
  });
  // Steps at which no range begins make no difference, so only the others are numbered.
  std::vector<int> begins;
  for (const LiveRange* r : order) begins.push_back(r->first);
  std::sort(begins.begin(), begins.end());
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  auto step_of = [&](int step) {
    return static_cast<int>(std::upper_bound(begins.begin(), begins.end(), step) - begins.begin()) - 1;
  };
  Placed placed(begins.size());
  int64_t bytes = 0, work = 0;
  for (LiveRange* r : order) {
    const int first = step_of(r->first), last = step_of(r->last);
    std::vector<const LiveRange*> alive = placed.AliveWith(first, last, work);
    if (work > most_work) return std::nullopt;
    std::ranges::sort(alive, {}, &LiveRange::offset);
    int64_t at = 0;
    for (const LiveRange* p : alive) {
      if (at + Rounded(*r) <= p->offset) break;
      at = std::max(at, p->offset + Rounded(*p));
    }
    r->offset = at;
    bytes = std::max(bytes, at + Rounded(*r));
    placed.Add(r, first, last);
  }
  return bytes;
}

// Places ranges in the order in which they begin: each takes the smallest free block that holds it, or room at the end.
int64_t PackByTime(std::vector<LiveRange*> order) {
  std::ranges::stable_sort(order, {}, &LiveRange::first);
  std::vector<LiveRange*> ends = order;
  std::ranges::stable_sort(ends, {}, &LiveRange::last);
  std::map<int64_t, int64_t> free_at;               // offset -> size; no two touch
  std::set<std::pair<int64_t, int64_t>> free_size;  // the same as (size, offset)
  auto take = [&](std::map<int64_t, int64_t>::iterator block) {
    free_size.erase({block->second, block->first});
    return free_at.erase(block);
  };
  auto give = [&](int64_t offset, int64_t size) {
    auto next = free_at.lower_bound(offset);
    if (next != free_at.end() && next->first == offset + size) {
      size += next->second;
      next = take(next);
    }
    if (next != free_at.begin()) {
      auto before = std::prev(next);
      if (before->first + before->second == offset) {
        offset = before->first;
        size += before->second;
        take(before);
      }
    }
    free_at.emplace(offset, size);
    free_size.emplace(size, offset);
  };
  int64_t bytes = 0;
  std::size_t ended = 0;
  for (LiveRange* r : order) {
    for (; ends[ended]->last < r->first; ++ended) give(ends[ended]->offset, Rounded(*ends[ended]));
    const int64_t size = Rounded(*r);
    auto fit = free_size.lower_bound({size, 0});
    if (fit != free_size.end()) {
      const auto [have, offset] = *fit;
      take(free_at.find(offset));
      r->offset = offset;
      if (have > size) give(offset + size, have - size);
    } else if (!free_at.empty() && std::prev(free_at.end())->first + std::prev(free_at.end())->second == bytes) {
      // The last block grows.
      auto last = std::prev(free_at.end());
      r->offset = last->first;
      take(last);
      bytes = r->offset + size;
    } else {
      r->offset = bytes;
      bytes += size;
    }
  }
  return bytes;
}

int64_t LargestLiveSet(std::span<const LiveRange> ranges) {
  std::map<int, int64_t> change;
  for (const LiveRange& r : ranges) {
    if (r.size == 0) continue;
    change[r.first] += Rounded(r);
    change[r.last + 1] -= Rounded(r);
  }
  int64_t live = 0, largest = 0;
  for (const auto& [step, delta] : change) largest = std::max(largest, live += delta);
  return largest;
}

}  // namespace

ArenaSize PackArena(std::span<LiveRange> ranges) {
  ArenaSize out;
  out.largest_live_set = LargestLiveSet(ranges);
  std::vector<LiveRange*> order;
  for (LiveRange& r : ranges)
    if (r.size > 0) order.push_back(&r);

  // Comparisons that packing by size may take: enough for any thousand ranges, and for any number of them of which few
  // are alive together.
  constexpr int64_t kWork = int64_t{1} << 20, kWorkEach = 64;
  const auto packed = PackBySize(order, kWork + kWorkEach * static_cast<int64_t>(order.size()));
  out.bytes = packed ? *packed : PackByTime(order);
  return out;
}

ArenaSize PlaceApart(std::span<LiveRange> ranges, Guards guards) {
  ArenaSize out;
  out.largest_live_set = LargestLiveSet(ranges);
  for (LiveRange& r : ranges) {
    if (r.size == 0) continue;
    r.offset = out.bytes + PlaceBetweenGuards(r.size, kGuardedAlignment, guards);
    out.bytes += BytesBetweenGuards(r.size);
  }
  return out;
}

}  // namespace krafla::plan
