// SPDX-License-Identifier: Apache-2.0
// Lanes of a routine's values folded into one, in the order of kernels/reduce_ops.h: the bits are the same.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cpu_fallback/executor/routine_block.h"
#include "plan/kernel_plan.h"

namespace krafla::cpu {

// Elements that follow each other, in one value.
struct RoutineLanes {
  native::LaneBuilder::Value value;
  int lanes = 1;
};

class RoutineFold {
 public:
  using Value = native::LaneBuilder::Value;

  // Nothing: there are no lanes of the type, or the operation has none.
  static std::optional<RoutineFold> Find(RoutineBlock& block, const plan::Reduction& reduction);

  // A value of the program as it is combined, and back, a NaN as it is to be seen and integers of their width.
  Value Enter(Value value, int lanes) const;
  std::optional<Value> Leave(Value value, int lanes) const;
  Value Combine(Value x, Value y, int lanes) const;
  // total (op) the elements of a row. False: they are not whole vectors, and their order counts.
  bool FoldRow(std::span<const RoutineLanes> row, Value& total) const;
  // accumulator (op) the values of each row, of so many lanes.
  Value FoldColumns(std::span<const Value> rows, int lanes, Value accumulator) const;

 private:
  explicit RoutineFold(RoutineBlock& block) : block_(block) {}
  Value FoldLanes(std::vector<Value> pieces, int lanes) const;
  void FoldWhole(std::span<const RoutineLanes> row, int vector_lanes, Value& total) const;

  RoutineBlock& block_;
  native::LaneOp op_ = native::LaneOp::kAdd;
  ElementType type_ = ElementType::kF32;         // that is combined
  ElementType computed_ = ElementType::kF32;     // that the program has
  ElementType wrapped_ = ElementType::kInvalid;  // an integer that sums leave
  int vector_lanes_ = 0;                         // ReduceOps::lanes
};

}  // namespace krafla::cpu
