// SPDX-License-Identifier: Apache-2.0
#include "plan/rows/row_chain.h"

#include <algorithm>
#include <set>

#include "plan/rows/row_sums.h"

namespace krafla::plan {
namespace {

constexpr int kMostSplits = 8;  // of one kernel's dimensions

std::size_t ChainAt(int64_t i) { return static_cast<std::size_t>(i); }

bool IsWritten(const KernelPlan& kernel, const LaunchStep& launch, int allocation) {
  for (std::size_t b = 0; b < kernel.bindings.size(); ++b)
    if (kernel.bindings[b].written && launch.bindings[b].allocation == allocation) return true;
  return false;
}

bool IsTouched(const LaunchStep& launch, int allocation) {
  return std::ranges::any_of(launch.bindings, [&](const Slice& s) { return s.allocation == allocation; });
}

// Whether the kernel reads memory that it writes, at whatever place.
bool ReadsOwnResult(const KernelPlan& kernel, const LaunchStep& launch) {
  for (std::size_t b = 0; b < kernel.bindings.size(); ++b)
    for (std::size_t c = 0; c < kernel.bindings.size(); ++c)
      if (kernel.bindings[b].written && (b != c || kernel.bindings[b].read) &&
          launch.bindings[b].allocation == launch.bindings[c].allocation)
        return true;
  return false;
}

// What the dimensions of an access to an array of rows of `width` elements mean.
struct Rows {
  bool fits = false;
  std::vector<int64_t> units;
  std::optional<FreeSplit> split;  // would make it fit
};

Rows RowsOf(const RowAccess& access, const Dims& free, int64_t width) {
  Rows out;
  out.units.assign(free.size(), 0);
  Interval columns = access.rest;
  for (std::size_t d = 0; d < free.size(); ++d) {
    if (free[d] == 1) continue;
    if (!access.strides[d]) return out;
    const int64_t stride = *access.strides[d];
    if (stride < 0) return out;
    if (stride >= width && stride % width == 0) {
      out.units[d] = stride / width;
    } else if (stride > 0 && SaturatedMultiply(stride, free[d]) > width) {
      if (stride < width && width % stride == 0 && free[d] % (width / stride) == 0)
        out.split = FreeSplit{static_cast<int>(d), width / stride};
      return out;
    } else {
      columns = columns + Interval{0, stride * (free[d] - 1)};
    }
  }
  out.fits = columns.lo >= 0 && columns.hi < width;
  return out;
}

// Whether the dimensions with units count all rows, each once; `rows` 0: whatever their number is. Gives the number.
int64_t CountRows(const std::vector<int64_t>& units, const Dims& free) {
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (std::size_t d = 0; d < free.size(); ++d)
    if (units[d] > 0) dims.emplace_back(units[d], free[d]);
  std::ranges::sort(dims);
  int64_t rows = 1;
  for (const auto& [unit, extent] : dims) {
    if (unit != rows) return 0;
    rows *= extent;
  }
  return rows;
}

void AddCuts(const RowChain::Member& member, std::vector<int64_t>& cuts) {
  const Dims free = *FreeDims(member.kernel);
  for (std::size_t d = 0; d < free.size(); ++d)
    if (member.units[d] > 0) cuts.push_back(member.units[d]), cuts.push_back(member.units[d] * free[d]);
  std::ranges::sort(cuts);
  cuts.erase(std::ranges::unique(cuts).begin(), cuts.end());
}

bool IsDivisorChain(const std::vector<int64_t>& cuts) {
  for (std::size_t i = 1; i < cuts.size(); ++i)
    if (cuts[i] % cuts[i - 1] != 0) return false;
  return true;
}

RowChain::Member MemberOf(std::size_t step, const LaunchStep& launch, const KernelPlan& kernel) {
  RowChain::Member out{step, launch, WithOwnDims(kernel), {}, {}, false};
  out.accesses = AccessesOf(out.kernel);
  return out;
}

void Split(RowChain::Member& member, const FreeSplit& split) {
  member.kernel = SplitFree(member.kernel, split.dim, split.inner);
  member.accesses = AccessesOf(member.kernel);
}

// The widths that an array may have for two kernels: where one of them goes on by so much.
std::set<int64_t> WidthsOf(const RowChain::Member& member, int allocation) {
  std::set<int64_t> out;
  const Dims free = *FreeDims(member.kernel);
  int64_t least = 1;
  for (const RowAccess& a : member.accesses) {
    if (member.launch.bindings[ChainAt(a.binding)].allocation != allocation) continue;
    least = std::max(least, SaturatedAdd(a.rest.hi, 1));
    for (std::size_t d = 0; d < free.size(); ++d)
      if (free[d] > 1 && a.strides[d] && *a.strides[d] > 0) out.insert(*a.strides[d]);
  }
  out.erase(out.begin(), out.lower_bound(least));
  return out;
}

}  // namespace

struct RowChain::Trial {
  Member member;
  std::map<int, Value> written;
};

RowChain::RowChain(std::size_t step, const LaunchStep& launch, const KernelPlan& kernel) {
  members_.push_back(MemberOf(step, launch, kernel));
  for (std::size_t b = 0; b < kernel.bindings.size(); ++b)
    if (kernel.bindings[b].written) values_[launch.bindings[b].allocation] = {};
}

// Splits the member's dimensions until all its accesses to arrays of these widths lie in rows, and sets its units.
bool RowChain::Fits(Member& member, const std::map<int, int64_t>& widths, int64_t rows) const {
  for (int splits = 0; splits <= kMostSplits; ++splits) {
    const Dims free = *FreeDims(member.kernel);
    member.units.clear();
    std::optional<FreeSplit> split;
    bool fits = true, affine = true;
    for (const RowAccess& a : member.accesses) {
      const auto width = widths.find(member.launch.bindings[ChainAt(a.binding)].allocation);
      if (width == widths.end()) continue;
      // The array begins with its allocation.
      if (member.launch.bindings[ChainAt(a.binding)].offset != 0) return false;
      for (std::size_t d = 0; d < free.size(); ++d) affine = affine && a.strides[d].has_value();
      const Rows found = RowsOf(a, free, width->second);
      if (!split) split = found.split;
      fits = fits && found.fits && (member.units.empty() || member.units == found.units);
      member.units = found.units;
    }
    // It touches none of the arrays.
    if (member.units.size() != free.size()) return false;
    if (fits) {
      const int64_t counted = CountRows(member.units, free);
      return counted > 1 && (rows == 0 || counted == rows);
    }
    if (!affine) split = FindFreeSplit(member.kernel);
    if (!split) return false;
    Split(member, *split);
  }
  return false;
}

// The arrays that a member writes, and which of them have rows.
void RowChain::FindWritten(Trial& trial, std::size_t maker) const {
  const Member& m = trial.member;
  const Dims free = *FreeDims(m.kernel);
  for (std::size_t b = 0; b < m.kernel.bindings.size(); ++b)
    if (m.kernel.bindings[b].written) trial.written[m.launch.bindings[b].allocation] = {0, maker};
  for (auto& [allocation, value] : trial.written) {
    int64_t width = 0;
    for (const RowAccess& a : m.accesses)
      if (m.launch.bindings[ChainAt(a.binding)].allocation == allocation)
        for (std::size_t d = 0; d < free.size(); ++d)
          if (m.units[d] == 1 && free[d] > 1 && a.strides[d] && width == 0) width = *a.strides[d];
    if (width <= 0) continue;
    bool fits = true;
    for (const RowAccess& a : m.accesses) {
      if (m.launch.bindings[ChainAt(a.binding)].allocation != allocation) continue;
      const Rows found = RowsOf(a, free, width);
      fits = fits && found.fits && found.units == m.units && m.launch.bindings[ChainAt(a.binding)].offset == 0;
    }
    if (fits) value.width = width;
  }
}

bool RowChain::IsRead(const LaunchStep& launch, const KernelPlan& kernel) const {
  for (std::size_t b = 0; b < kernel.bindings.size(); ++b)
    if (kernel.bindings[b].read && values_.contains(launch.bindings[b].allocation)) return true;
  return false;
}

bool RowChain::IsIndependent(const LaunchStep& launch, const KernelPlan& kernel) const {
  for (std::size_t b = 0; b < kernel.bindings.size(); ++b) {
    const int allocation = launch.bindings[b].allocation;
    if (values_.contains(allocation)) return false;
    if (!kernel.bindings[b].written) continue;
    for (const Member& m : members_)
      if (IsTouched(m.launch, allocation)) return false;
  }
  return true;
}

bool RowChain::OverwritesMembers(const LaunchStep& launch, const KernelPlan& kernel) const {
  return std::ranges::any_of(members_, [&](const Member& m) {
    return std::ranges::any_of(m.launch.bindings,
                               [&](const Slice& s) { return IsWritten(kernel, launch, s.allocation); });
  });
}

std::map<int, int64_t> RowChain::WidthsRead(const LaunchStep& launch, const KernelPlan& kernel) const {
  std::map<int, int64_t> out;
  for (std::size_t b = 0; b < kernel.bindings.size(); ++b)
    if (const auto value = values_.find(launch.bindings[b].allocation); value != values_.end())
      out[value->first] = value->second.width;
  return out;
}

std::optional<std::vector<int64_t>> RowChain::CutsWith(const Member& member) const {
  std::vector<int64_t> cuts = cuts_;
  AddCuts(member, cuts);
  if (!IsDivisorChain(cuts)) return std::nullopt;
  return cuts;
}

Ungrouped RowChain::JoinSum(std::size_t step, const LaunchStep& launch, const KernelPlan& kernel) {
  if (ReadsOwnResult(kernel, launch) || OverwritesMembers(launch, kernel)) return Ungrouped::kMemory;
  const std::map<int, int64_t> widths = WidthsRead(launch, kernel);
  if (rows_ == 0 || widths.empty()) return Ungrouped::kRows;
  for (const auto& [allocation, width] : widths)
    if (width == 0) return Ungrouped::kRows;
  const auto is_written = [](const Binding& b) { return b.written; };
  const auto written = std::ranges::find_if(kernel.bindings, is_written);
  std::optional<KernelPlan> sum = SumOverRows(WithOwnDims(kernel));
  if (!sum || written == kernel.bindings.end()) return Ungrouped::kRows;
  LaunchStep with_sums = launch;
  with_sums.bindings.push_back(launch.bindings[static_cast<std::size_t>(written - kernel.bindings.begin())]);
  Member member = MemberOf(step, with_sums, *sum);
  member.is_sum = true;
  if (!Fits(member, widths, rows_)) return Ungrouped::kRows;
  std::optional<std::vector<int64_t>> cuts = CutsWith(member);
  if (!cuts) return Ungrouped::kRows;
  for (std::size_t b = 0; b < kernel.bindings.size(); ++b)
    if (kernel.bindings[b].written) values_[launch.bindings[b].allocation] = {0, members_.size()};
  members_.push_back(std::move(member));
  cuts_ = std::move(*cuts);
  return Ungrouped::kGrouped;
}

bool RowChain::Adopt(std::size_t step, const LaunchStep& launch, const KernelPlan& kernel) {
  if (!FreeDims(kernel) || ReadsOwnResult(kernel, launch)) return false;
  if (std::ranges::any_of(launch.bindings, [&](const Slice& s) { return values_.contains(s.allocation); }))
    return false;
  const Member& reader = members_.back();
  const Dims free = *FreeDims(reader.kernel);
  std::map<int, int64_t> widths;
  for (const RowAccess& a : reader.accesses) {
    const Slice& slice = reader.launch.bindings[ChainAt(a.binding)];
    if (!IsWritten(kernel, launch, slice.allocation)) continue;
    int64_t& width = widths[slice.allocation];
    for (std::size_t d = 0; d < free.size(); ++d)
      if (reader.units[d] == 1 && free[d] > 1 && a.strides[d] && width == 0) width = *a.strides[d];
    const Rows found = width > 0 ? RowsOf(a, free, width) : Rows{};
    if (!found.fits || found.units != reader.units || slice.offset != 0) return false;
  }
  for (std::size_t b = 0; b < kernel.bindings.size(); ++b)
    if (kernel.bindings[b].written && !widths.contains(launch.bindings[b].allocation)) return false;
  Member member = MemberOf(step, launch, kernel);
  if (!Fits(member, widths, rows_)) return false;
  std::optional<std::vector<int64_t>> cuts = CutsWith(member);
  if (!cuts) return false;
  const std::size_t place = members_.size() - 1;
  for (auto& [allocation, value] : values_)
    if (value.maker >= place) ++value.maker;
  for (const auto& [allocation, width] : widths) values_[allocation] = {width, place};
  members_.insert(members_.end() - 1, std::move(member));
  cuts_ = std::move(*cuts);
  return true;
}

Ungrouped RowChain::Join(std::size_t step, const LaunchStep& launch, const KernelPlan& kernel) {
  if (!FreeDims(kernel)) return Ungrouped::kFamily;
  if (ReadsOwnResult(kernel, launch) || OverwritesMembers(launch, kernel)) return Ungrouped::kMemory;
  const std::map<int, int64_t> widths = WidthsRead(launch, kernel);
  if (widths.empty()) return Ungrouped::kRows;
  Trial trial{MemberOf(step, launch, kernel), {}};
  Trial first{members_.front(), {}};
  if (rows_ == 0) {
    if (ReadsOwnResult(first.member.kernel, first.member.launch)) return Ungrouped::kMemory;
    // Two loops have no row of their own.
    if (std::holds_alternative<LoopKernel>(kernel.body) && std::holds_alternative<LoopKernel>(first.member.kernel.body))
      return Ungrouped::kRows;
    if (widths.size() > 1) return Ungrouped::kRows;
    const int allocation = widths.begin()->first;
    std::set<int64_t> candidates = WidthsOf(first.member, allocation);
    const std::set<int64_t> more = WidthsOf(trial.member, allocation);
    const int64_t least = std::max(candidates.empty() ? 1 : *candidates.begin(), more.empty() ? 1 : *more.begin());
    candidates.insert(more.begin(), more.end());
    bool found = false;
    for (int64_t width : candidates) {
      if (width < least) continue;
      Member a = members_.front(), b = trial.member;
      const std::map<int, int64_t> one{{allocation, width}};
      if (!Fits(a, one, 0)) continue;
      if (!Fits(b, one, CountRows(a.units, *FreeDims(a.kernel)))) continue;
      first.member = std::move(a), trial.member = std::move(b);
      found = true;
      break;
    }
    if (!found) return Ungrouped::kRows;
    FindWritten(first, 0);
  } else {
    for (const auto& [allocation, width] : widths)
      if (width == 0) return Ungrouped::kRows;
    if (!Fits(trial.member, widths, rows_)) return Ungrouped::kRows;
  }
  std::vector<int64_t> cuts = cuts_;
  if (rows_ == 0) AddCuts(first.member, cuts);
  AddCuts(trial.member, cuts);
  if (!IsDivisorChain(cuts)) return Ungrouped::kRows;
  if (rows_ == 0) {
    members_.front() = std::move(first.member);
    values_ = std::move(first.written);
  }
  FindWritten(trial, members_.size());
  for (const auto& [allocation, value] : trial.written) values_[allocation] = value;
  members_.push_back(std::move(trial.member));
  cuts_ = std::move(cuts);
  rows_ = cuts_.back();
  return Ungrouped::kGrouped;
}

Dims RowChain::Digits() const {
  Dims out;
  for (std::size_t i = cuts_.size(); i-- > 1;) out.push_back(cuts_[i] / cuts_[i - 1]);
  return out;
}

}  // namespace krafla::plan
