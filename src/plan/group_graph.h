// SPDX-License-Identifier: Apache-2.0
// Which kernels read what other kernels make, while kernels are merged: a graph of numbered groups without cycles.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

namespace krafla::plan {

// Every group has a place, and a group's place is before those of the groups that read it. So a search for a path
// between two groups looks at no group that is placed after the second, and costs what lies between the two.
class GroupGraph {
 public:
  // A graph of `count` groups, each of which reads groups with smaller numbers only.
  explicit GroupGraph(std::size_t count);

  void AddReader(int group, int reader);
  void RemoveReader(int group, int reader) { readers_[At(group)].erase(reader); }
  const std::unordered_set<int>& readers(int group) const { return readers_[At(group)]; }
  bool Reads(int reader, int group) const { return readers_[At(group)].contains(reader); }

  // Whether a third group lies on a path from `a` to `b`, so that merging the two would make a cycle. Searches stop
  // after visiting a multiple of the graph's size; the answer is then yes.
  bool PathAround(int a, int b);

  // Makes `b` part of `a`. No third group may lie between them (PathAround).
  void Merge(int a, int b);

  // The number of groups that searches have visited.
  int64_t visits() const { return visits_; }

 private:
  static std::size_t At(int group) { return static_cast<std::size_t>(group); }
  // Moves readers of `group` that are not placed after it behind it, then their readers, and so on.
  void RaiseReaders(int group);

  std::vector<std::unordered_set<int>> readers_;
  std::vector<int64_t> place_;
  std::vector<int> seen_in_;  // the search that saw a group last
  int searches_ = 0;
  int64_t visits_ = 0, edges_ = 0;
};

}  // namespace krafla::plan
