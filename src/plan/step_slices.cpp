// SPDX-License-Identifier: Apache-2.0
#include "plan/step_slices.h"

#include <algorithm>
#include <set>

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

bool MayShareBytes(const ProgramPlan& plan, const Slice& a, const Slice& b, Arena arena) {
  const Allocation &x = plan.allocations[static_cast<std::size_t>(a.allocation)],
                   &y = plan.allocations[static_cast<std::size_t>(b.allocation)];
  const auto meet = [](int64_t from, int64_t size, int64_t other_from, int64_t other_size) {
    return from < other_from + other_size && other_from < from + size;
  };
  if (a.allocation == b.allocation) return meet(a.offset, a.size, b.offset, b.size);
  using Kind = Allocation::Kind;
  if (x.kind == Kind::kArena && y.kind == Kind::kArena)
    return arena == Arena::kIsPacked && meet(x.offset + a.offset, a.size, y.offset + b.offset, b.size);
  const auto lies_in = [&](const Allocation& result, const Allocation& argument) {
    return result.kind == Kind::kResult && argument.kind == Kind::kArgument &&
           plan.result_aliases[static_cast<std::size_t>(result.number)] == argument.number;
  };
  return lies_in(x, y) || lies_in(y, x);
}

bool Conflict(const ProgramPlan& plan, const std::vector<TouchedSlice>& a, const std::vector<TouchedSlice>& b,
              Arena arena) {
  return std::ranges::any_of(a, [&](const TouchedSlice& x) {
    return std::ranges::any_of(b, [&](const TouchedSlice& y) {
      return (x.written || y.written) && MayShareBytes(plan, x.slice, y.slice, arena);
    });
  });
}

}  // namespace krafla::plan
