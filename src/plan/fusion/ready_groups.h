// SPDX-License-Identifier: Apache-2.0
// The groups that may run next, and which of them does. Without collectives that is the one that stands first. With
// them it is chosen as in XLA's latency hiding scheduler (xla/service/latency_hiding_scheduler.h): a clock of estimates
// goes along, a collective begins as soon as it may, what waits for one that is not over yet comes after what does not,
// and what no collective waits for is kept back, as much of it as hides one.
#pragma once

#include <set>
#include <utility>
#include <vector>

namespace krafla::plan {

class ReadyGroups {
 public:
  struct Facts {
    int place = 0;              // of those that are alike the lowest comes first
    bool goes_on = false;       // a collective that goes on while others run
    bool is_waited_for = true;  // a collective comes after it
    double ns = 0;
  };
  // By group.
  explicit ReadyGroups(std::vector<Facts> facts);

  bool IsEmpty() const { return now_ready_.empty() && kept_.empty() && later_.empty(); }
  // All that the group waits for has been taken; what the collectives among it make is there at `begin_ns`.
  void Add(int group, double begin_ns);
  int Take();
  // Of a group that was taken: when what it makes is there.
  double EndOf(int group) const { return ends_[static_cast<std::size_t>(group)]; }

 private:
  const Facts& Of(int group) const { return facts_[static_cast<std::size_t>(group)]; }
  void LookAtClock();

  std::vector<Facts> facts_;
  std::vector<double> ends_;
  // (rank, group): those that may begin now, collectives before others and then by place; those that may as well wait.
  std::set<std::pair<int, int>> now_ready_, kept_;
  std::set<std::pair<double, int>> later_;  // by the time from which on they may begin
  double now_ns_ = 0, lane_free_ns_ = 0, kept_ns_ = 0, most_kept_ns_ = 0;
};

}  // namespace krafla::plan
