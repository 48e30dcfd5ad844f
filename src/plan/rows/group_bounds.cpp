// SPDX-License-Identifier: Apache-2.0
// Row groups of which some rows need only some of their columns (group_columns.h).
#include <algorithm>

#include "base/checked_math.h"
#include "plan/module_planner.h"
#include "plan/rows/group_columns.h"
#include "plan/rows/row_sums.h"
#include "plan/step_runner.h"

namespace krafla::plan {
namespace {

// Rows [begin, begin + extent) of the digit, and the columns that they need.
struct BoundedPart {
  int64_t begin = 0, extent = 0;
  ColumnRange columns;
};

// The columns that a part of the rows may have. A product of more than 1024 terms sums them in runs, and how long these
// are depends on how many terms there are. These numbers of columns, and the places where they begin, keep the order of
// the sums on the CPU, and so the bits (measured with oneDNN 3.7.2, of f32 and, without AMX, of bf16 results); within
// a run they begin with the first one, or terms would go to other sums. The kernels for Vulkan have one order of long
// sums and another one of short ones.
class ColumnRanges {
 public:
  ColumnRanges(int64_t all, const RowGroupOptions& options) : all_(all) {
    constexpr int64_t kRun = 1024, kHalfRun = 512, kVectors = 64, kLeast = 128, kMostCounts = 32;
    if (!options.sums_in_runs) {
      const int64_t step = RoundUp(CeilDiv(all, kMostCounts), kVectors);
      for (int64_t columns = RoundUp(kLeast, step); columns < all; columns += step)
        if (columns > options.short_sum || all <= options.short_sum) counts_.push_back(columns);
    } else if (all <= kRun) {
      for (int64_t columns = kLeast; columns < all; columns += kVectors) counts_.push_back(columns);
    } else if (all % kRun == 0) {
      step_ = kRun;
      counts_.push_back(kHalfRun);
      for (int64_t columns = 2 * kRun; columns < all; columns += kRun) counts_.push_back(columns);
    }
    counts_.push_back(all);
  }

  // The least range of those without which all columns are masked.
  template <typename IsMaskedRange>
  ColumnRange Find(IsMaskedRange&& is_masked) const {
    int64_t end = all_, first = 0;
    for (int64_t count : counts_)
      if (is_masked(ColumnRange{count, all_ - count})) {
        end = count;
        break;
      }
    while (step_ > 0 && first + step_ < end && is_masked(ColumnRange{0, first + step_})) first += step_;
    return Around({first, end - first});
  }
  // The least one that has these, which end where a range may.
  ColumnRange Around(const ColumnRange& columns) const {
    const int64_t count = *std::ranges::lower_bound(counts_, columns.count), first = columns.end() - count;
    if (first <= 0 || first % step_ != 0) return {0, *std::ranges::lower_bound(counts_, columns.end())};
    return {first, count};
  }

 private:
  int64_t all_, step_ = 0;       // from one place where columns may begin to the next
  std::vector<int64_t> counts_;  // rising
};

// The parts of the rows' digit `blocks.digit`.
std::vector<BoundedPart> BoundedParts(const RowChainMember& scores, const ScoreMask& mask, const Dims& digits,
                                      const RowBlocks& blocks, const RowGroupOptions& options) {
  const DigitDim rows = DimOfDigit(scores, digits, blocks.digit);
  if (rows.dim < 0) return {};
  const int64_t most_parts = options.bounded_parts;
  const ColumnRanges ranges(mask.columns, options);
  const int64_t extent = digits[blocks.digit], in_blocks = extent / blocks.part;
  // As many blocks at a time as make that many parts at the most.
  const int64_t together = std::max<int64_t>(1, in_blocks / (4 * most_parts));
  std::vector<BoundedPart> out;
  for (int64_t b = 0; b < in_blocks; b += together) {
    BoundedPart part{b * blocks.part, std::min(together, in_blocks - b) * blocks.part, {}};
    part.columns = ranges.Find([&](const ColumnRange& columns) {
      return IsMasked(rows.kernel, mask, rows.dim, part.begin, part.extent, columns);
    });
    if (out.empty() || (out.back().columns != part.columns && std::ssize(out) <= most_parts)) {
      out.push_back(part);
      continue;
    }
    ColumnRange& last = out.back().columns;
    const int64_t first = std::min(last.first, part.columns.first);
    last = ranges.Around({first, std::max(last.end(), part.columns.end()) - first});
    out.back().extent += part.extent;
  }
  // What the blocks leave over.
  const int64_t rest = in_blocks * blocks.part;
  if (rest < extent) out.push_back({rest, extent - rest, {0, mask.columns}});
  return out;
}

double SavedFlops(std::span<const RowChainMember> members, const GroupColumns& columns,
                  const std::vector<BoundedPart>& parts) {
  double needed = 0, all = 0, flops = 0;
  for (const BoundedPart& p : parts) {
    needed += static_cast<double>(p.extent) * static_cast<double>(p.columns.count);
    all += static_cast<double>(p.extent) * static_cast<double>(columns.mask.columns);
  }
  for (std::size_t m = 0; m < members.size(); ++m)
    if (columns.roles[m].kind != ColumnRole::Kind::kNone) flops += members[m].kernel.flops;
  return all > 0 ? flops * (1 - needed / all) : 0;
}

// Whether the group may run a second time: no member overwrites, outside of a block, what it or one before it reads.
// Sums begin with zeros each time, and what is made of them is written behind the group.
bool RunsAgain(const RowGroup& group) {
  std::set<int> read;
  for (const RowChain::Member& m : group.chain.members()) {
    const std::size_t count = m.kernel.bindings.size() - (m.is_sum ? 1 : 0);
    for (std::size_t b = 0; b < count; ++b)
      if (m.kernel.bindings[b].read) read.insert(m.launch.bindings[b].allocation);
    for (std::size_t b = 0; b < count; ++b) {
      const int allocation = m.launch.bindings[b].allocation;
      if (m.kernel.bindings[b].written && !group.shrunk.contains(allocation) && read.contains(allocation)) return false;
    }
  }
  return true;
}

}  // namespace

bool ModulePlanner::AddBounded(const Scope& scope, RowGroup& group, const GroupBlocks& blocks, StepList& whole,
                               StepList& out) {
  if (options_.row_groups.bounded_parts <= 0) return false;
  const std::vector<RowChainMember>& members = blocks.sums.members;
  std::optional<GroupColumns> columns = FindGroupColumns(members, group.chain.values(), group.shrunk);
  if (!columns || !RunsAgain(group)) return false;
  const RowSumParts& rows_of = blocks.parts;
  const std::vector<BoundedPart> parts =
      BoundedParts(members[columns->scores], columns->mask, rows_of.digits, rows_of.blocks, options_.row_groups);
  if (SavedFlops(members, *columns, parts) < options_.row_groups.least_bound_flops) return false;
  const int64_t rows = group.chain.rows(), count = rows + std::ssize(columns->checked);
  const int begin = scope.launched.at(group.chain.members().front().step), end = scope.launched.at(group.last);
  const auto temporary = [&](int64_t bytes) {
    const Slice made = NewTemporary(bytes);
    touched_[static_cast<std::size_t>(made.allocation)] = {begin, end};
    return made;
  };
  const Slice checks = temporary(count), holds = temporary(1);
  const std::vector<RowChainMember> checked = WithChecks(members, *columns, count, checks);
  const auto widths_of = [&](const BoundedPart& part) {
    std::map<int, int64_t> widths;
    for (int array : columns->arrays) widths[array] = part.columns.count;
    return widths;
  };
  std::vector<BlockKernels> made;
  for (const BoundedPart& part : parts) {
    const int64_t block = std::min(rows_of.blocks.part, part.extent);
    std::optional<BlockKernels> kernels = TakeBlocks(WithColumns(checked, *columns, part.columns), rows_of.digits,
                                                     rows_of.blocks.digit, part.begin, part.extent, block);
    if (!kernels || !IsAligned(group, checked, *kernels, widths_of(part))) return false;
    made.push_back(std::move(*kernels));
  }
  // Sums begin with zeros.
  if (blocks.sums.bytes() > 0) out.steps.push_back(std::get<LaunchStep>(whole.steps.front()));
  for (std::size_t p = 0; p < made.size(); ++p) {
    group.bounds.push_back(parts[p].columns.count);
    out.steps.push_back(RowGroupOf(group, checked, std::move(made[p]), blocks, widths_of(parts[p]), p == 0));
  }

  const Instruction* instruction = checked[columns->largest].launch.instruction;
  const auto launch = [&](KernelPlan kernel, std::vector<Slice> slices) {
    LaunchStep step;
    step.bindings = std::move(slices);
    step.instruction = instruction;
    step.kernel = KernelNumber(std::move(kernel));
    out.steps.push_back(std::move(step));
  };
  int64_t at = rows;
  for (const CheckedValues& values : columns->checked) {
    std::vector<Slice> slices = values.slices;
    slices.push_back(checks);
    launch(SizeCheck(values, at++, count), std::move(slices));
  }
  launch(AllTrue(count), {checks, holds});
  for (Step& step : whole.steps) ForEachLaunchOf(step, [](auto& again) { again.instruction_count = 0; });
  ConditionalStep otherwise;
  otherwise.index = holds;
  otherwise.index_is_pred = true;
  otherwise.instruction = instruction;
  otherwise.branches.push_back(std::make_unique<StepList>());
  otherwise.branches.push_back(std::make_unique<StepList>(std::move(whole)));
  out.steps.push_back(std::move(otherwise));
  return true;
}

}  // namespace krafla::plan
