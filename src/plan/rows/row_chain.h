// SPDX-License-Identifier: Apache-2.0
// Launches that follow one another row by row (RowGroupStep). Rows have numbers; an array between two kernels has the
// elements [row * width, (row + 1) * width) of each, and every kernel that writes or reads it touches in one row of its
// own only those. That is proved from the strides of operands and the index expressions of programs.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "plan/plan_log.h"
#include "plan/rows/row_kernel.h"

namespace krafla::plan {

// A launch of a chain.
struct RowChainMember {
  std::size_t step = 0;  // in the list of steps
  LaunchStep launch;
  KernelPlan kernel;
  std::vector<int64_t> units;  // by free dimension: rows that it goes on by; 0: it does not choose among rows
  std::vector<RowAccess> accesses;
  // It sums over the rows (row_sums.h): the kernel has one more binding, the sums, for which the one stands meanwhile
  // that the launch writes.
  bool is_sum = false;
};

class RowChain {
 public:
  using Member = RowChainMember;
  // An array that members write. `width`: elements of a row; 0: it has no rows.
  struct Value {
    int64_t width = 0;
    std::size_t maker = 0;  // the member
  };

  RowChain(std::size_t step, const LaunchStep& launch, const KernelPlan& kernel);
  // Takes one more launch, or says why not, and is as it was.
  Ungrouped Join(std::size_t step, const LaunchStep& launch, const KernelPlan& kernel);
  // The same for a launch that sums over the rows of what members write.
  Ungrouped JoinSum(std::size_t step, const LaunchStep& launch, const KernelPlan& kernel);
  // Takes a launch that needs nothing of the group's as the member before the last one, which reads what it writes row
  // by row; false: it does not, and the chain is as it was.
  bool Adopt(std::size_t step, const LaunchStep& launch, const KernelPlan& kernel);
  // Whether a launch that does not join may run before all of the group: it needs nothing of the group's, and the group
  // nothing that it overwrites.
  bool IsIndependent(const LaunchStep& launch, const KernelPlan& kernel) const;
  // Whether the launch reads what a member writes.
  bool IsRead(const LaunchStep& launch, const KernelPlan& kernel) const;

  const std::vector<Member>& members() const { return members_; }
  const std::map<int, Value>& values() const { return values_; }  // by allocation
  int64_t rows() const { return rows_; }
  // The extents into which the rows fall, from the outermost; in each of them every member has whole dimensions.
  Dims Digits() const;

 private:
  struct Trial;
  bool Fits(Member& member, const std::map<int, int64_t>& widths, int64_t rows) const;
  bool OverwritesMembers(const LaunchStep& launch, const KernelPlan& kernel) const;
  // The widths of the group's arrays that the launch reads.
  std::map<int, int64_t> WidthsRead(const LaunchStep& launch, const KernelPlan& kernel) const;
  // The cuts with those of a member; nothing: they do not divide each other.
  std::optional<std::vector<int64_t>> CutsWith(const Member& member) const;
  void FindWritten(Trial& trial, std::size_t maker) const;

  std::vector<Member> members_;
  std::map<int, Value> values_;
  std::vector<int64_t> cuts_;  // rising, each divides the next; the first is 1, the last the number of rows
  int64_t rows_ = 0;           // 0: nothing has joined yet
};

}  // namespace krafla::plan
