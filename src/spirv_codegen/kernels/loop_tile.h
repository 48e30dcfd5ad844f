// SPDX-License-Identifier: Apache-2.0
// Loops that read along one dimension what they store along another, as transposes do: a workgroup takes a tile of both
// dimensions, so that neighbours in memory are read, and stored, by neighbouring invocations.
#pragma once

#include <vector>

#include "spirv_codegen/kernels/context.h"
#include "spirv_codegen/kernels/loop_move.h"
#include "spirv_codegen/kernels/variant.h"

namespace krafla::spirv {

// A tile of `columns` points along the problem's inner dimension by `rows` along the dimension `across`; both are
// powers of two. `staged` are the loads whose neighbours in memory lie along `across`.
struct LoopTile {
  int across = 0;
  int64_t columns = 0, rows = 0;
  std::vector<plan::NodeId> staged;  // empty: there is nothing to gain
};

// A loop and the device that it is for, with what the variants of kLoopVariants ask about it.
class LoopProblem {
 public:
  LoopProblem(const plan::KernelPlan& of, const plan::LoopKernel& loop, const Target& device);

  const plan::KernelPlan& plan;
  const plan::ElementProgram& program;
  const Target& target;
  int64_t points = 1;  // of the iteration space
  int inner = -1;      // the last dimension of more than one point, else 0; -1: there are no dimensions
  LoopTile tile;
  std::optional<MoveBlock> move;  // of `loop.move` or `loop.words`
};

// The tile of a problem, all of which but that is known.
LoopTile FindLoopTile(const LoopProblem& problem);
Refusal RefusesLoopTile(const LoopProblem& problem);
Result<EmittedProgram> EmitLoopTile(const LoopProblem& problem);

}  // namespace krafla::spirv
