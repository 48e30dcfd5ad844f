// SPDX-License-Identifier: Apache-2.0
// What is known of a program at a block of its points: how its indices lie, and so whether the elements that it reads
// and stores can be made by words of elements.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "spirv_codegen/point_group.h"
#include "spirv_codegen/run_group.h"

namespace krafla::spirv {

// A comparison of an index with a constant, of an index that goes on in longer runs: x / d < c where x < c * d. Where
// rows of pixels are padded, the pixels' channels make no runs of their own.
struct Limit {
  plan::IndexId index = 0;
  ComparisonDirection direction = ComparisonDirection::kLt;
  int64_t limit = 0;
};
using Limits = std::map<plan::NodeId, Limit>;
// Of the program's comparisons, whose indices become expressions of its space.
Limits FindLimits(plan::ElementProgram& program);

class MoveIndices {
 public:
  // How an index lies over the block: as a point group's does, or in runs by one stride.
  struct Step {
    PointGroup::Offsets offsets;
    bool in_runs = false;
    int64_t stride = 0;  // where it lies in runs
  };

  // `in_runs`: the program has one dimension, and where indices are not the same in all blocks, runs are looked for.
  MoveIndices(const plan::ElementProgram& program, const Limits& limits, std::vector<PointGroup::Along> points,
              int element_bytes, bool in_runs);

  // Whether an operation may be one of those between what is loaded and what is stored.
  static bool MayMove(const plan::Node& node);
  // Whether every store can be made by words. The rest of what is asked here is known where it can.
  bool CanMove();
  // The same where words are only what is read and stored, and what lies between is computed. The nodes that a block
  // gives to the computation are then these: loads, numbers that go on by steps (indices, and comparisons that are
  // Limits), nodes that have one value in a run, and those that have one in the block.
  bool CanCompute();
  const std::set<plan::NodeId>& numbers() const { return numbers_; }
  const std::set<plan::NodeId>& ones() const { return ones_; }
  const std::set<plan::NodeId>& same() const { return same_; }
  const RunStarts& starts() const { return starts_; }
  const std::set<plan::NodeId>& loads() const { return loads_; }  // that the stores come from
  const Limit* LimitOf(plan::NodeId id) const {
    const auto found = limits_.find(id);
    return found == limits_.end() ? nullptr : &found->second;
  }

  std::optional<Step> Of(plan::IndexId id);
  // The index that a number is, or is compared by.
  plan::IndexId IndexOf(plan::NodeId number) const {
    const Limit* limit = LimitOf(number);
    return limit != nullptr ? limit->index : program_.nodes[static_cast<std::size_t>(number)].index;
  }
  int64_t count() const { return count_; }  // points of a block
  // How many of them follow one another in the order of the result; all, unless said.
  int64_t line() const { return line_; }
  void SetLine(int64_t points) { line_ = points; }
  bool IsSame(plan::NodeId id) const { return group_.IsSame(id); }
  // Whether the node has one value in the block, or in each of the runs that it is made of.
  bool IsOne(plan::NodeId id) const {
    return IsSame(id) || (runs_ && runs_->OfNode(id) && RunGroup::Both(starts_, runs_->OfNode(id)) == starts_);
  }

 private:
  bool Moves(plan::NodeId id);
  bool Masks(plan::NodeId id);
  bool Steps(plan::NodeId id);
  bool Computes(plan::NodeId id, std::vector<plan::NodeId>& open);
  bool AreLong(const RunStarts& starts) const;
  bool Take(plan::IndexId id);
  bool Take(const std::optional<RunStarts>& starts);

  const plan::ElementProgram& program_;
  const Limits& limits_;
  int element_bytes_;
  int64_t count_, line_ = count_;
  PointGroup group_;
  std::optional<RunGroup> runs_;
  RunStarts starts_;
  std::set<plan::NodeId> loads_, moved_, masks_, numbers_, ones_, same_;
};

}  // namespace krafla::spirv
