// SPDX-License-Identifier: Apache-2.0
// Finds chains of launches in a list of steps and makes row groups of them (docs/fusion.md).
#include <algorithm>
#include <set>

#include "base/checked_math.h"
#include "plan/module_planner.h"
#include "plan/rows/attention.h"
#include "plan/rows/row_growth.h"
#include "plan/rows/row_sums.h"
#include "plan/step_runner.h"

namespace krafla::plan {
namespace {

// Whether blocks of a group are smaller than all of it, and large enough for its products.
bool FallsIntoBlocks(const RowGroup& group, const RowGroupOptions& options) {
  if (group.chain.members().size() < 2) return false;
  const RowBlocks blocks = ChooseBlocks(group.chain, group.row_bytes, options);
  return blocks.rows < group.chain.rows() && IsSharedEnough(group.chain, blocks, group.row_bytes, options);
}

}  // namespace

void ModulePlanner::FindShrunk(const Scope& scope, const std::set<int>& kept, RowGroup& group) const {
  const int begin = scope.launched.at(group.chain.members().front().step), end = scope.launched.at(group.last);
  for (const auto& [allocation, value] : group.chain.values()) {
    const Allocation& a = plan_.allocations[static_cast<std::size_t>(allocation)];
    const auto& [first, last] = touched_[static_cast<std::size_t>(allocation)];
    if (value.width == 0 || a.kind != Allocation::Kind::kArena || kept.contains(allocation)) continue;
    if (first < begin || last > end || group.needed_behind.contains(allocation)) continue;
    // Only members touch it: what stands between them does not.
    if (first == last) continue;
    const RowChain::Member& maker = group.chain.members()[value.maker];
    for (std::size_t b = 0; b < maker.launch.bindings.size(); ++b) {
      if (maker.launch.bindings[b].allocation != allocation) continue;
      const Binding& binding = plan_.kernels[static_cast<std::size_t>(maker.launch.kernel)].bindings[b];
      group.shrunk.insert(allocation);
      group.row_bytes += value.width * StorageBytes(binding.storage);
      group.saved += a.size;
      break;
    }
  }
}

bool ModulePlanner::MayStart(const StepList& steps, std::size_t step) const {
  const LaunchStep* launch = LaunchAt(steps, step);
  if (launch == nullptr || !DonatedTo(plan_, *launch).empty()) return false;
  const KernelPlan& kernel = plan_.kernels[static_cast<std::size_t>(launch->kernel)];
  int64_t written = 0;
  for (std::size_t b = 0; b < kernel.bindings.size(); ++b)
    if (kernel.bindings[b].written) written += launch->bindings[b].size;
  // A chain begins with one of its larger arrays, or may as well begin behind it.
  constexpr int64_t kShare = 16;
  return written >= options_.row_groups.least_saved / kShare && FreeDims(kernel).has_value();
}

RowGroup ModulePlanner::GroupFrom(const Scope& scope, const std::set<int>& kept, const StepList& steps,
                                  std::size_t step, bool is_wide) const {
  RowGroup out =
      GrowGroup(plan_, steps, step, {.is_wide = is_wide, .takes = [&](std::size_t s) { return MayStart(steps, s); }});
  if (out.chain.members().size() > 1) FindShrunk(scope, kept, out);
  return out;
}

void ModulePlanner::GroupRows(const Scope& scope, std::span<const Slice> arguments, std::span<const Slice> results,
                              std::size_t begin, StepList& steps) {
  if (!options_.row_groups.enabled) return;
  std::set<int> kept;
  for (const Slice& s : arguments) kept.insert(s.allocation);
  for (const Slice& s : results) kept.insert(s.allocation);
  StepList out;
  for (std::size_t s = 0; s < begin; ++s) out.steps.push_back(std::move(steps.steps[s]));
  for (std::size_t s = begin; s < steps.steps.size();) {
    if (std::optional<std::size_t> next = MakeAttention(scope, kept, steps, s, out)) {
      s = *next;
      continue;
    }
    if (!MayStart(steps, s)) {
      out.steps.push_back(std::move(steps.steps[s++]));
      continue;
    }
    const std::optional<std::size_t> last = MakeRowGroupFrom(scope, kept, steps, s, out);
    if (last) s = *last + 1;
    else out.steps.push_back(std::move(steps.steps[s++]));
  }
  steps = std::move(out);
}

std::optional<std::size_t> ModulePlanner::MakeRowGroupFrom(const Scope& scope, const std::set<int>& kept,
                                                           StepList& steps, std::size_t step, StepList& out) {
  const auto has_sums = [](const RowGroup& g) {
    return std::ranges::any_of(g.chain.members(), &RowChainMember::is_sum);
  };
  // What a group would save that begins with the step.
  const auto saved_from = [&](std::size_t s) {
    for (const bool is_wide : {true, false}) {
      const RowGroup group = GroupFrom(scope, kept, steps, s, is_wide);
      if (is_wide == has_sums(group) && FallsIntoBlocks(group, options_.row_groups)) return group.saved;
    }
    return int64_t{0};
  };
  for (const bool is_wide : {true, false}) {
    RowGroup group = GroupFrom(scope, kept, steps, step, is_wide);
    if (is_wide && !has_sums(group)) continue;
    // A launch is left out where the chain behind it saves more without it.
    const auto saves_more = [&](const RowChain::Member& m) {
      return m.step != step && MayStart(steps, m.step) && saved_from(m.step) > group.saved;
    };
    if (std::ranges::any_of(group.chain.members(), saves_more)) continue;
    if (MakeRowGroup(scope, group, steps, out)) return group.last;
  }
  return std::nullopt;
}

std::optional<std::size_t> ModulePlanner::MakeAttention(const Scope& scope, const std::set<int>& kept, StepList& steps,
                                                        std::size_t step, StepList& out) {
  const LaunchStep* launch = LaunchAt(steps, step);
  if (!options_.row_groups.takes_attention || launch == nullptr || !DonatedTo(plan_, *launch).empty())
    return std::nullopt;
  const auto body_of = [&](const LaunchStep& l) -> const KernelBody& {
    return plan_.kernels[static_cast<std::size_t>(l.kernel)].body;
  };
  if (!std::holds_alternative<DotKernel>(body_of(*launch))) return std::nullopt;
  RowGroup group = GrowGroup(plan_, steps, step, {.most = 3});
  if (group.chain.members().size() < 3) return std::nullopt;
  FindShrunk(scope, kept, group);
  const auto members = std::span(group.chain.members()).first(3);
  if (!std::holds_alternative<ReduceKernel>(body_of(members[1].launch)) ||
      !std::holds_alternative<DotKernel>(body_of(members[2].launch)))
    return std::nullopt;
  LoggedRowGroup logged;
  for (const RowChain::Member& m : members) logged.kernels.push_back(m.launch.instruction);
  std::expected<FusedAttention, NotOneKernel> made =
      FuseAttention(group.chain, group.shrunk, 0, options_.row_groups.limits_added_masks);
  if (made && !options_.row_groups.takes_attention(made->kernel)) made = std::unexpected(NotOneKernel::kDevice);
  if (!made) {
    logged.not_one_kernel = made.error();
    if (options_.fusion.log != nullptr) options_.fusion.log->row_groups.push_back(std::move(logged));
    return std::nullopt;
  }
  LaunchStep fused;
  for (const RowChain::Member& m : members) {
    fused.instruction_count += m.launch.instruction_count;
    fused.instruction = m.launch.instruction;
  }
  for (std::size_t before : group.before) out.steps.push_back(std::move(steps.steps[before]));
  fused.bindings = std::move(made->bindings);
  fused.kernel = KernelNumber(std::move(made->kernel));
  out.steps.emplace_back(std::move(fused));
  group.shrunk = std::move(made->arrays);
  EndRowGroup(scope, group);
  logged.is_one_kernel = true;
  logged.saved_bytes = group.saved, logged.rows = logged.block_rows = group.chain.rows();
  if (options_.fusion.log != nullptr) options_.fusion.log->row_groups.push_back(std::move(logged));
  return group.last + 1;
}

bool ModulePlanner::MakeRowGroup(const Scope& scope, RowGroup& group, StepList& steps, StepList& out) {
  const RowGroupOptions& options = options_.row_groups;
  LoggedRowGroup logged;
  logged.next = group.next;
  logged.why_not_next = group.why_not_next;
  for (const RowChain::Member& m : group.chain.members()) logged.kernels.push_back(m.launch.instruction);
  const auto log = [&](Ungrouped why) {
    logged.why = why;
    if (options_.fusion.log != nullptr) options_.fusion.log->row_groups.push_back(logged);
    return why == Ungrouped::kGrouped;
  };
  if (group.saved < options.least_saved) {
    // Worth a word where a large array was to be read.
    const LaunchStep& last = group.chain.members().back().launch;
    const std::vector<Binding>& bindings = plan_.kernels[static_cast<std::size_t>(last.kernel)].bindings;
    int64_t written = 0;
    for (std::size_t b = 0; b < bindings.size(); ++b)
      if (bindings[b].written) written += last.bindings[b].size;
    if (group.why_not_next == Ungrouped::kGrouped || written < options.least_saved) return false;
    return log(group.chain.members().size() > 1 ? Ungrouped::kSaves : group.why_not_next);
  }
  const RowBlocks blocks = ChooseBlocks(group.chain, group.row_bytes, options);
  logged.saved_bytes = group.saved, logged.block_rows = blocks.rows, logged.rows = group.chain.rows();
  GroupBlocks split{ChooseParts(group.chain, blocks, group.saved), {}, {}};
  split.sums = PartSums(group.chain.members(), split.parts);
  const RowSumParts& sum_parts = split.parts;
  RowSumMembers& sums = split.sums;
  if (blocks.rows >= group.chain.rows() || sum_parts.blocks.digit >= RowGroupStep::kMostDims)
    return log(Ungrouped::kSaves);
  if (!IsSharedEnough(group.chain, blocks, group.row_bytes, options)) return log(Ungrouped::kShared);
  if (sums.bytes() > group.saved / RowSumMembers::kShareOfSaved) return log(Ungrouped::kSums);
  const Dims& digits = sum_parts.digits;
  const int64_t extent = digits[sum_parts.blocks.digit], rest = extent % blocks.part;
  std::vector<BlockKernels> parts;
  for (const auto& [first, count, part] :
       {std::tuple{int64_t{0}, extent - rest, blocks.part}, {extent - rest, rest, rest}}) {
    if (count == 0) continue;
    std::optional<BlockKernels> made = TakeBlocks(sums.members, digits, sum_parts.blocks.digit, first, count, part);
    if (!made) return log(Ungrouped::kIndices);
    if (!IsAligned(group, sums.members, *made, {})) return log(Ungrouped::kAligned);
    parts.push_back(std::move(*made));
  }
  for (std::size_t s : group.before) out.steps.push_back(std::move(steps.steps[s]));
  split.places = PlaceBlocks(group, blocks);
  StepList whole;
  PlaceSums(scope, group, sums, whole);
  for (BlockKernels& part : parts)
    whole.steps.emplace_back(RowGroupOf(group, sums.members, std::move(part), split, {}, &part == parts.data()));
  if (!AddBounded(scope, group, split, whole, out))
    for (Step& step : whole.steps) out.steps.push_back(std::move(step));
  FinishSumsOf(group, sums, out);
  for (std::size_t s : group.behind) out.steps.push_back(std::move(steps.steps[s]));
  EndRowGroup(scope, group);
  logged.bounds = group.bounds;
  return log(Ungrouped::kGrouped);
}

bool ModulePlanner::IsAligned(const RowGroup& group, std::span<const RowChainMember> launches, const BlockKernels& part,
                              const std::map<int, int64_t>& widths) const {
  const auto lies_well = [&](int64_t elements, int64_t element_bytes) {
    return elements * element_bytes % options_.row_groups.alignment == 0;
  };
  for (std::size_t m = 0; m < part.kernels.size(); ++m) {
    const BlockKernel& block = part.kernels[m];
    for (std::size_t b = 0; b < block.bindings.size(); ++b) {
      const BlockKernel::From& from = block.bindings[b];
      if (from.binding < 0) continue;
      const int64_t element = StorageBytes(block.kernel.bindings[b].storage);
      const int allocation = launches[m].launch.bindings[static_cast<std::size_t>(from.binding)].allocation;
      if (group.shrunk.contains(allocation)) {
        const auto other = widths.find(allocation);
        const int64_t width = other != widths.end() ? other->second : group.chain.values().at(allocation).width;
        if (!lies_well(from.first - part.first_row * width, element)) return false;
        continue;
      }
      if (!lies_well(from.first, element)) return false;
      for (int64_t stride : from.strides)
        if (!lies_well(stride, element)) return false;
    }
  }
  return true;
}

// The sums of all members are one array, of zeros where the group begins.
void ModulePlanner::PlaceSums(const Scope& scope, const RowGroup& group, RowSumMembers& sums, StepList& out) {
  if (sums.bytes() == 0) return;
  const Slice all = NewTemporary(sums.bytes());
  touched_[static_cast<std::size_t>(all.allocation)] = {scope.launched.at(group.chain.members().front().step),
                                                        scope.launched.at(group.last)};
  int64_t offset = 0;
  const Instruction* instruction = nullptr;
  for (RowChainMember& m : sums.members) {
    if (!m.is_sum) continue;
    const int64_t size = m.kernel.bindings.back().byte_size();
    m.launch.bindings.back() = {all.allocation, offset, size};
    offset += RoundUp(size, kArenaAlignment);
    instruction = m.launch.instruction;
  }
  LaunchStep zeros;
  zeros.instruction = instruction;
  zeros.bindings = {all};
  zeros.kernel = KernelNumber(ZeroSums(all.size / int64_t{sizeof(float)}));
  out.steps.emplace_back(std::move(zeros));
}

// Behind the group: what its products do with their sums.
void ModulePlanner::FinishSumsOf(const RowGroup& group, const RowSumMembers& sums, StepList& out) {
  for (std::size_t m = 0; m < sums.members.size(); ++m) {
    if (!sums.members[m].is_sum) continue;
    const LaunchStep& whole = group.chain.members()[m].launch;
    std::vector<int> bindings;
    KernelPlan kernel = FinishSums(plan_.kernels[static_cast<std::size_t>(whole.kernel)], sums.parts[m], bindings);
    LaunchStep launch;
    launch.instruction = whole.instruction;
    for (int b : bindings)
      launch.bindings.push_back(b < 0 ? sums.members[m].launch.bindings.back()
                                      : whole.bindings[static_cast<std::size_t>(b)]);
    launch.kernel = KernelNumber(std::move(kernel));
    out.steps.emplace_back(std::move(launch));
  }
}

// Where the arrays of a block lie in its memory, behind the block's place in the grid.
std::map<int, Slice> ModulePlanner::PlaceBlocks(const RowGroup& group, const RowBlocks& blocks) {
  std::vector<LiveRange> ranges;
  const auto& members = group.chain.members();
  for (int allocation : group.shrunk) {
    const RowChain::Value& value = group.chain.values().at(allocation);
    LiveRange range{0, static_cast<int>(value.maker), static_cast<int>(value.maker), 0};
    for (std::size_t m = 0; m < members.size(); ++m)
      for (std::size_t b = 0; b < members[m].launch.bindings.size(); ++b) {
        if (members[m].launch.bindings[b].allocation != allocation) continue;
        const auto kernel = static_cast<std::size_t>(members[m].launch.kernel);
        range.size = value.width * blocks.rows * StorageBytes(plan_.kernels[kernel].bindings[b].storage);
        range.last = std::max(range.last, static_cast<int>(m));
      }
    ranges.push_back(range);
  }
  const int64_t place = kArenaAlignment;
  plan_.block_bytes = std::max(plan_.block_bytes, place + PackArena(ranges).bytes);
  std::map<int, Slice> out;
  std::size_t n = 0;
  for (int allocation : group.shrunk) {
    out[allocation] = NewAllocation(Allocation::Kind::kBlock, 0, ranges[n].size);
    plan_.allocations.back().offset = place + ranges[n++].offset;
  }
  out[-1] = NewAllocation(Allocation::Kind::kBlock, 0, place);
  return out;
}

RowGroupStep ModulePlanner::RowGroupOf(const RowGroup& group, std::span<const RowChainMember> members,
                                       BlockKernels part, const GroupBlocks& blocks,
                                       const std::map<int, int64_t>& widths, bool is_first) {
  const std::map<int, Slice>& places = blocks.places;
  RowGroupStep out;
  out.grid = part.grid;
  if (blocks.sums.bytes() > 0) out.in_order = static_cast<int>(out.grid.size() - blocks.parts.apart);
  out.place = places.at(-1);
  out.place.size = 0;
  for (std::size_t m = 0; m < part.kernels.size(); ++m) {
    const LaunchStep& whole = members[m].launch;
    BlockKernel& block = part.kernels[m];
    BlockLaunch launch;
    launch.instruction = whole.instruction;
    launch.instruction_count = is_first ? whole.instruction_count : 0;
    for (std::size_t b = 0; b < block.bindings.size(); ++b) {
      const BlockKernel::From& from = block.bindings[b];
      const Binding& binding = block.kernel.bindings[b];
      const int64_t element = StorageBytes(binding.storage);
      Slice slice = from.binding < 0 ? places.at(-1) : whole.bindings[static_cast<std::size_t>(from.binding)];
      Dims strides = from.strides;
      for (int64_t& s : strides) s *= element;
      if (from.binding < 0) out.place.size = static_cast<int64_t>(part.grid.size()) * element;
      if (group.shrunk.contains(slice.allocation)) {
        const auto other = widths.find(slice.allocation);
        const int64_t width = other != widths.end() ? other->second : group.chain.values().at(slice.allocation).width;
        slice.offset = -part.first_row * width * element;
        slice = {places.at(slice.allocation).allocation, slice.offset, 0};
        strides = Dims(strides.size(), 0);
      }
      slice.offset += from.first * element;
      slice.size = binding.byte_size();
      launch.bindings.push_back(slice);
      launch.strides.push_back(std::move(strides));
    }
    launch.kernel = KernelNumber(std::move(block.kernel));
    out.launches.push_back(std::move(launch));
  }
  return out;
}

// The group's arrays are alive together, and with what runs before it though it stood inside.
void ModulePlanner::EndRowGroup(const Scope& scope, const RowGroup& group) {
  const int begin = scope.launched.at(group.chain.members().front().step), end = scope.launched.at(group.last);
  for (std::size_t a = 0; a < plan_.allocations.size(); ++a) {
    if (plan_.allocations[a].kind != Allocation::Kind::kArena) continue;
    auto& [first, last] = touched_[a];
    if (group.shrunk.contains(static_cast<int>(a))) {
      first = last = -1;
      plan_.allocations[a].size = 0;
    } else if (first >= 0 && first <= end && last >= begin) {
      first = std::min(first, begin);
      last = std::max(last, end);
    }
  }
  has_unused_kernels_ = true;
}

void ModulePlanner::DropUnusedKernels() {
  if (!has_unused_kernels_) return;
  std::vector<int> number(plan_.kernels.size(), -1);
  ForEachLaunch(plan_, [&](const LaunchStep& launch) { number[static_cast<std::size_t>(launch.kernel)] = 0; });
  std::vector<KernelPlan> used;
  for (std::size_t k = 0; k < number.size(); ++k) {
    if (number[k] < 0) continue;
    number[k] = static_cast<int>(used.size());
    used.push_back(std::move(plan_.kernels[k]));
  }
  plan_.kernels = std::move(used);
  ForEachLaunch(plan_, [&](LaunchStep& launch) { launch.kernel = number[static_cast<std::size_t>(launch.kernel)]; });
}

}  // namespace krafla::plan
