// SPDX-License-Identifier: Apache-2.0
#include "plan/step_slices.h"

#include <algorithm>
#include <set>
#include <utility>

#include "plan/step_runner.h"

namespace krafla::plan {
namespace {

class Collector {
 public:
  explicit Collector(const ProgramPlan& plan) : plan_(plan) {}

  void Add(const Step& step) {
    const bool in_blocks = std::holds_alternative<RowGroupStep>(step);
    ForEachLaunchOf(step, [&](const LaunchStep& launch) {
      const std::vector<Binding>& bindings = plan_.kernels[static_cast<std::size_t>(launch.kernel)].bindings;
      for (std::size_t b = 0; b < launch.bindings.size(); ++b)
        Touch(in_blocks ? Whole(launch.bindings[b]) : launch.bindings[b], bindings[b].written);
    });
    if (const auto* copy = std::get_if<CopyStep>(&step)) {
      Touch(copy->from, false);
      Touch(copy->to, true);
    } else if (const auto* loop = std::get_if<WhileStep>(&step)) {
      Touch(loop->predicate, true);
      Add(*loop->condition);
      Add(*loop->body);
    } else if (const auto* conditional = std::get_if<ConditionalStep>(&step)) {
      Touch(conditional->index, false);
      for (const auto& branch : conditional->branches) Add(*branch);
    } else if (const auto* call = std::get_if<CallStep>(&step)) {
      if (called_.insert(call->callee).second) Add(plan_.callees[static_cast<std::size_t>(call->callee)]);
    }
  }

  std::vector<TouchedSlice> Take() && { return std::move(touched_); }

 private:
  void Add(const StepList& list) {
    for (const Step& step : list.steps) Add(step);
  }
  void Touch(const Slice& slice, bool written) {
    if (slice.size > 0) touched_.push_back({slice, written});
  }
  Slice Whole(const Slice& s) const {
    return {s.allocation, 0, plan_.allocations[static_cast<std::size_t>(s.allocation)].size};
  }

  const ProgramPlan& plan_;
  std::vector<TouchedSlice> touched_;
  std::set<int> called_;
};

}  // namespace

std::vector<TouchedSlice> SlicesOf(const ProgramPlan& plan, const Step& step) {
  Collector collector(plan);
  collector.Add(step);
  return std::move(collector).Take();
}

SliceExtent OpenSlices::PlaceOf(const Slice& slice) const {
  const Allocation::Kind kind = plan_.allocations[static_cast<std::size_t>(slice.allocation)].kind;
  // Beyond the spaces that extents have.
  constexpr int64_t kOfItsOwn = int64_t{1} << 40;
  if (kind == Allocation::Kind::kBlock || (kind == Allocation::Kind::kArena && arena_ == Arena::kIsOpen))
    return {kOfItsOwn + slice.allocation, slice.offset, slice.offset + slice.size};
  return ExtentOf(plan_, slice);
}

void OpenSlices::Add(int number, std::vector<TouchedSlice> touched) {
  for (const TouchedSlice& t : touched) {
    const SliceExtent place = PlaceOf(t.slice);
    Space& space = (t.written ? written_ : read_)[place.space];
    space.ranges.emplace(place.begin, Range{place.end, number});
    space.longest = std::max(space.longest, place.end - place.begin);
  }
  touched_.emplace(number, std::move(touched));
}

bool OpenSlices::Remove(int number) {
  const auto found = touched_.find(number);
  if (found == touched_.end()) return false;
  for (const TouchedSlice& t : found->second) {
    const SliceExtent place = PlaceOf(t.slice);
    auto& ranges = (t.written ? written_ : read_)[place.space].ranges;
    const auto [first, last] = ranges.equal_range(place.begin);
    for (auto at = first; at != last; ++at)
      if (at->second.number == number && at->second.end == place.end) {
        ranges.erase(at);
        break;
      }
  }
  touched_.erase(found);
  return true;
}

void OpenSlices::Find(const Spaces& spaces, const SliceExtent& place, std::set<int>& found) {
  const auto space = spaces.find(place.space);
  if (space == spaces.end()) return;
  const auto& ranges = space->second.ranges;
  for (auto at = ranges.lower_bound(place.begin - space->second.longest); at != ranges.end() && at->first < place.end;
       ++at)
    if (at->second.end > place.begin) found.insert(at->second.number);
}

std::vector<int> OpenSlices::DisturbedBy(const std::vector<TouchedSlice>& touched) const {
  std::set<int> found;
  for (const TouchedSlice& t : touched) {
    const SliceExtent place = PlaceOf(t.slice);
    Find(written_, place, found);
    if (t.written) Find(read_, place, found);
  }
  return {found.begin(), found.end()};
}

}  // namespace krafla::plan
