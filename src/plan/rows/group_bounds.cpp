// SPDX-License-Identifier: Apache-2.0
// Row groups of which some rows need only their first columns (column_bounds.h).
#include <algorithm>

#include "plan/module_planner.h"
#include "plan/rows/column_bounds.h"
#include "plan/rows/row_group.h"

namespace krafla::plan {
namespace {

// Rows [begin, begin + extent) of the digit, and the columns that they need.
struct BoundedPart {
  int64_t begin = 0, extent = 0, columns = 0;
};

// The numbers of columns that a row may have, rising; the last one is all of them. A product of more than 1024 terms
// sums them in runs, and how long these are depends on how many terms there are. These numbers keep the order of the
// sums on the CPU, and so the bits (measured with oneDNN 3.7.2, of f32 and of bf16 results).
std::vector<int64_t> ColumnCounts(int64_t all) {
  constexpr int64_t kRun = 1024, kHalfRun = 512, kVectors = 64, kLeast = 128;
  std::vector<int64_t> out;
  if (all <= kRun) {
    for (int64_t columns = kLeast; columns < all; columns += kVectors) out.push_back(columns);
  } else if (all % kRun == 0) {
    out.push_back(kHalfRun);
    for (int64_t columns = 2 * kRun; columns < all; columns += kRun) out.push_back(columns);
  }
  out.push_back(all);
  return out;
}

std::vector<BoundedPart> BoundedParts(const RowGroup& group, const ColumnBounds& bounds, const RowBlocks& blocks,
                                      int64_t most_parts) {
  const Dims digits = group.chain.Digits();
  const DigitDim scores = DimOfDigit(group.chain.members()[bounds.scores], digits, blocks.digit);
  if (scores.dim < 0) return {};
  const std::vector<int64_t> counts = ColumnCounts(bounds.columns);
  const int64_t extent = digits[blocks.digit], in_blocks = extent / blocks.part;
  // As many blocks at a time as make that many parts at the most.
  const int64_t together = std::max<int64_t>(1, in_blocks / (4 * most_parts));
  std::vector<BoundedPart> out;
  for (int64_t b = 0; b < in_blocks; b += together) {
    BoundedPart part{b * blocks.part, std::min(together, in_blocks - b) * blocks.part, 0};
    for (int64_t columns : counts) {
      part.columns = columns;
      if (IsMaskedFrom(scores.kernel, bounds, scores.dim, part.begin, part.extent, columns)) break;
    }
    const bool is_same = !out.empty() && (out.back().columns == part.columns || std::ssize(out) > most_parts);
    if (is_same) out.back().extent += part.extent, out.back().columns = std::max(out.back().columns, part.columns);
    else out.push_back(part);
  }
  // What the blocks leave over.
  const int64_t rest = in_blocks * blocks.part;
  if (rest < extent) out.push_back({rest, extent - rest, bounds.columns});
  return out;
}

double SavedFlops(const RowGroup& group, const ColumnBounds& bounds, const std::vector<BoundedPart>& parts) {
  double needed = 0, all = 0, flops = 0;
  for (const BoundedPart& p : parts) {
    needed += static_cast<double>(p.extent) * static_cast<double>(p.columns);
    all += static_cast<double>(p.extent) * static_cast<double>(bounds.columns);
  }
  for (std::size_t m : {bounds.scores, bounds.softmax, bounds.product}) flops += group.chain.members()[m].kernel.flops;
  return all > 0 ? flops * (1 - needed / all) : 0;
}

// Whether the group may run a second time: no member overwrites, outside of a block, what it or one before it reads.
bool RunsAgain(const RowGroup& group) {
  std::set<int> read;
  for (const RowChain::Member& m : group.chain.members()) {
    for (std::size_t b = 0; b < m.kernel.bindings.size(); ++b)
      if (m.kernel.bindings[b].read) read.insert(m.launch.bindings[b].allocation);
    for (std::size_t b = 0; b < m.kernel.bindings.size(); ++b) {
      const int allocation = m.launch.bindings[b].allocation;
      if (m.kernel.bindings[b].written && !group.shrunk.contains(allocation) && read.contains(allocation)) return false;
    }
  }
  return true;
}

}  // namespace

bool ModulePlanner::AddBounded(const Scope& scope, RowGroup& group, const RowBlocks& blocks,
                               const std::map<int, Slice>& places, StepList& whole, StepList& out) {
  std::optional<ColumnBounds> bounds = FindColumnBounds(group.chain.members(), group.shrunk);
  if (!bounds) return false;
  if (options_.row_groups.bounded_parts <= 0) return false;
  // The check of the second product's operand reads all of it behind the group, where a block's rows are gone.
  const RowChain::Member& second = group.chain.members()[bounds->product];
  const auto values = static_cast<std::size_t>(std::get<DotKernel>(second.kernel.body).rhs_binding);
  if (group.shrunk.contains(second.launch.bindings[values].allocation) || !RunsAgain(group)) return false;
  const std::vector<BoundedPart> parts = BoundedParts(group, *bounds, blocks, options_.row_groups.bounded_parts);
  if (SavedFlops(group, *bounds, parts) < options_.row_groups.least_bound_flops) return false;
  const int64_t rows = group.chain.rows();
  const int begin = scope.launched.at(group.chain.members().front().step), end = scope.launched.at(group.last);
  const auto temporary = [&](int64_t bytes) {
    const Slice made = NewTemporary(bytes);
    touched_[static_cast<std::size_t>(made.allocation)] = {begin, end};
    return made;
  };
  const Slice checks = temporary(rows + 1), holds = temporary(1);
  const std::vector<RowChainMember> checked = WithChecks(group.chain.members(), *bounds, rows, checks);
  std::vector<BlockKernels> made;
  for (const BoundedPart& part : parts) {
    const int64_t block = std::min(blocks.part, part.extent);
    std::optional<BlockKernels> kernels = TakeBlocks(WithColumns(checked, *bounds, part.columns), group.chain.Digits(),
                                                     blocks.digit, part.begin, part.extent, block);
    if (!kernels) return false;
    made.push_back(std::move(*kernels));
  }
  for (std::size_t p = 0; p < made.size(); ++p) {
    group.bounds.push_back(parts[p].columns);
    const std::map<int, int64_t> widths{{bounds->scores_array, parts[p].columns},
                                        {bounds->parts_array, parts[p].columns}};
    out.steps.push_back(RowGroupOf(group, checked, std::move(made[p]), places, widths, p == 0));
  }

  const RowChainMember& product = checked[bounds->product];
  const auto binding = static_cast<std::size_t>(std::get<DotKernel>(product.kernel.body).rhs_binding);
  const auto launch = [&](KernelPlan kernel, std::vector<Slice> slices) {
    LaunchStep step;
    step.bindings = std::move(slices);
    step.instruction = product.launch.instruction;
    step.kernel = KernelNumber(std::move(kernel));
    out.steps.push_back(std::move(step));
  };
  launch(FiniteCheck(product.kernel.bindings[binding], rows, rows + 1), {product.launch.bindings[binding], checks});
  launch(AllTrue(rows + 1), {checks, holds});
  for (Step& step : whole.steps)
    for (BlockLaunch& again : std::get<RowGroupStep>(step).launches) again.instruction_count = 0;
  ConditionalStep otherwise;
  otherwise.index = holds;
  otherwise.index_is_pred = true;
  otherwise.instruction = product.launch.instruction;
  otherwise.branches.push_back(std::make_unique<StepList>());
  otherwise.branches.push_back(std::make_unique<StepList>(std::move(whole)));
  out.steps.push_back(std::move(otherwise));
  return true;
}

}  // namespace krafla::plan
