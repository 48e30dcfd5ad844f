// SPDX-License-Identifier: Apache-2.0
// The bytes that a step may touch, with all that it runs.
#pragma once

#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "plan/program_plan.h"
#include "plan/slice_extent.h"

namespace krafla::plan {

struct TouchedSlice {
  Slice slice;
  bool written = false;  // else it is only read
};

// Of the step, of the steps inside it, and of what it calls; each slice as often as it comes. An AwaitStep touches
// nothing. Row groups: the whole of each allocation.
std::vector<TouchedSlice> SlicesOf(const ProgramPlan& plan, const Step& step);

// What is touched by steps that are under way, so that a later step finds those that it would disturb without a look at
// all of them. Before temporaries have been given their places in the arena, no two of them share bytes; a result may
// lie where an argument does.
class OpenSlices {
 public:
  enum class Arena : uint8_t { kIsOpen, kIsPacked };
  OpenSlices(const ProgramPlan& plan, Arena arena) : plan_(plan), arena_(arena) {}

  bool IsEmpty() const { return touched_.empty(); }
  int First() const { return touched_.begin()->first; }
  void Add(int number, std::vector<TouchedSlice> touched);
  // False: there is none of that number.
  bool Remove(int number);
  // The numbers, in ascending order, of those that must have ended before a step that touches this begins.
  std::vector<int> DisturbedBy(const std::vector<TouchedSlice>& touched) const;

 private:
  struct Range {
    int64_t end = 0;
    int number = 0;
  };
  struct Space {
    std::multimap<int64_t, Range> ranges;  // by their begin
    int64_t longest = 0;
  };
  using Spaces = std::unordered_map<int64_t, Space>;
  SliceExtent PlaceOf(const Slice& slice) const;
  static void Find(const Spaces& spaces, const SliceExtent& place, std::set<int>& found);

  const ProgramPlan& plan_;
  const Arena arena_;
  Spaces read_, written_;
  std::map<int, std::vector<TouchedSlice>> touched_;
};

}  // namespace krafla::plan
