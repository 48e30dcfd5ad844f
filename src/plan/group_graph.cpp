// SPDX-License-Identifier: Apache-2.0
#include "plan/group_graph.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "base/work.h"

namespace krafla::plan {

namespace {

// The distance between the places of neighbours, so that a group that is moved behind another one rarely reaches the
// next.
constexpr int64_t kGap = int64_t{1} << 24;
// How many groups all searches together may visit, in multiples of the graph's size, and how many each search may visit
// once these are used up.
constexpr int64_t kGenerousVisits = 64, kFewVisits = 64;

}  // namespace

GroupGraph::GroupGraph(std::size_t count) : readers_(count), place_(count), seen_in_(count, 0) {
  for (std::size_t g = 0; g < count; ++g) place_[g] = static_cast<int64_t>(g) * kGap;
}

void GroupGraph::AddReader(int group, int reader) {
  if (readers_[At(group)].insert(reader).second) ++edges_;
}

bool GroupGraph::PathAround(int a, int b) {
  const int64_t limit = place_[At(b)];
  if (place_[At(a)] >= limit) return false;
  const int64_t budget = kGenerousVisits * (static_cast<int64_t>(readers_.size()) + edges_);
  const int64_t last = visits_ + std::max(budget - visits_, kFewVisits);
  ++searches_;
  std::vector<int> stack;
  // Whether `b` is a reader of `g`. The other readers that are placed before `b` are searched next.
  auto look = [&](int g, bool around) {
    for (int r : readers_[At(g)]) {
      ++visits_;
      if (r == b) {
        if (around) return true;
      } else if (place_[At(r)] < limit && std::exchange(seen_in_[At(r)], searches_) != searches_) {
        stack.push_back(r);
      }
    }
    return false;
  };
  look(a, false);
  bool found = false;
  const int64_t before = visits_;
  while (!stack.empty() && !found) {
    const int g = stack.back();
    stack.pop_back();
    found = look(g, true) || visits_ > last;
  }
  CountWork(visits_ - before);
  return found;
}

void GroupGraph::Merge(int a, int b) {
  for (int r : readers_[At(b)])
    if (r != a) readers_[At(a)].insert(r);
  readers_[At(b)].clear();
  readers_[At(a)].erase(a);
  readers_[At(a)].erase(b);
  place_[At(a)] = std::max(place_[At(a)], place_[At(b)]);
  RaiseReaders(a);
}

void GroupGraph::RaiseReaders(int group) {
  // In the order of places, so that each group is moved once.
  using Entry = std::pair<int64_t, int>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> work;
  work.push({place_[At(group)], group});
  while (!work.empty()) {
    const auto [place, g] = work.top();
    work.pop();
    if (place != place_[At(g)]) continue;  // it has been moved since
    for (int r : readers_[At(g)]) {
      if (place_[At(r)] > place) continue;
      place_[At(r)] = place + 1;
      work.push({place + 1, r});
    }
  }
}

}  // namespace krafla::plan
