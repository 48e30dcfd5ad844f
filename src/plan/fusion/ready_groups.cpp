// SPDX-License-Identifier: Apache-2.0
#include "plan/fusion/ready_groups.h"

#include <algorithm>

#include "krafla/status.h"

namespace krafla::plan {

ReadyGroups::ReadyGroups(std::vector<Facts> facts) : facts_(std::move(facts)), ends_(facts_.size(), 0) {
  for (const Facts& f : facts_)
    if (f.goes_on) most_kept_ns_ = std::max(most_kept_ns_, f.ns);
}

void ReadyGroups::Add(int group, double begin_ns) {
  if (begin_ns > now_ns_) {
    later_.emplace(begin_ns, group);
    return;
  }
  const Facts& f = Of(group);
  if (f.goes_on) {
    now_ready_.emplace(-1, group);
  } else if (f.is_waited_for) {
    now_ready_.emplace(f.place, group);
  } else {
    kept_.emplace(f.place, group);
    kept_ns_ += f.ns;
  }
}

void ReadyGroups::LookAtClock() {
  while (!later_.empty() && later_.begin()->first <= now_ns_) {
    const int group = later_.begin()->second;
    later_.erase(later_.begin());
    Add(group, now_ns_);
  }
}

int ReadyGroups::Take() {
  KRAFLA_CHECK(!IsEmpty());
  if (now_ready_.empty() && kept_.empty()) {
    now_ns_ = later_.begin()->first;
    LookAtClock();
  }
  // The first of those that are kept, where the others hide a collective without it.
  const bool too_many = !kept_.empty() && kept_ns_ - Of(kept_.begin()->second).ns >= most_kept_ns_ &&
                        (now_ready_.empty() || kept_.begin()->first < now_ready_.begin()->first);
  std::set<std::pair<int, int>>& from = now_ready_.empty() || too_many ? kept_ : now_ready_;
  const int group = from.begin()->second;
  if (&from == &kept_) kept_ns_ -= Of(group).ns;
  from.erase(from.begin());
  double& end = ends_[static_cast<std::size_t>(group)];
  if (Of(group).goes_on) {
    end = lane_free_ns_ = std::max(now_ns_, lane_free_ns_) + Of(group).ns;
  } else {
    end = now_ns_ += Of(group).ns;
  }
  LookAtClock();
  return group;
}

}  // namespace krafla::plan
