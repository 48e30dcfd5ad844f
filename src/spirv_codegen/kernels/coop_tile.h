// SPDX-License-Identifier: Apache-2.0
// CM: contraction by cooperative matrices. A workgroup's tile of both operands is staged in shared memory, where edges
// become zeros; the next step's elements wait in registers meanwhile. Finished sums go through shared memory to
// per-element code.
#pragma once

#include <optional>
#include <string>

#include "spirv_codegen/kernels/matrix.h"
#include "spirv_codegen/kernels/variant.h"

namespace krafla::spirv {

struct CoopTileOptions {
  CooperativeMatrixShape shape;
  int block_rows = 64, block_columns = 64, block_depth = 32;
  int subgroup_rows = 2, subgroup_columns = 2;  // how the workgroup's subgroups share the tile
  uint32_t subgroup = 32;                       // their size
  int64_t most_constant_offset = 0;             // this and the next: MatrixTuning
  bool first_step_apart = false;
  uint32_t local() const { return static_cast<uint32_t>(subgroup_rows * subgroup_columns) * subgroup; }
};

// The size of subgroups that share a matrix; 0: it is not known.
uint32_t CoopSubgroup(const Target& target);
// Why there are no matrices for operands stored as `a` and `b`, whatever their shape.
Refusal RefusesMatrices(ElementType a, ElementType b, ElementType accumulate, const Target& target);
// The device's best shape for operands stored as `a` and `b`, where it is faster with matrices, or they are asked for;
// nullopt, with a reason: none.
std::optional<CooperativeMatrixShape> ChooseCoopShape(ElementType a, ElementType b, ElementType accumulate,
                                                      const Target& target, std::string& reason);

// The shape and the tile for operands stored as `a` and `b`; nullopt, with a reason: not this way.
std::optional<CoopTileOptions> ChooseCoopTile(const TileProblem& problem, ElementType a, ElementType b,
                                              const Target& target, std::string& reason);

// Gives operands that read bits; `depth_in_range`: never past the end of the depth.
using MakeOperands = std::function<TileOperands(KernelWriter&, bool depth_in_range)>;
Result<EmittedProgram> EmitCoopTile(const plan::KernelPlan& plan, const Target& target, const TileProblem& problem,
                                    ElementType stored, const MakeOperands& make_operands,
                                    const CoopTileOptions& options, std::string variant);

}  // namespace krafla::spirv
