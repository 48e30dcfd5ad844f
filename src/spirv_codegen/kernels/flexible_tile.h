// SPDX-License-Identifier: Apache-2.0
// Products by matrices of any size: VK_NV_cooperative_matrix2. A workgroup's tile of the result is one matrix, and so
// are the parts of the operands that it takes in a step of the depth. Where the device has tensor addressing they are
// loaded from where they lie, and what is past an edge is zero; else through shared memory, as for matrices of fixed
// sizes (coop_operand.h).
#pragma once

#include <optional>
#include <string>

#include "spirv_codegen/kernels/matrix.h"
#include "spirv_codegen/kernels/variant.h"

namespace krafla::spirv {

struct FlexibleOptions {
  FlexibleMatrix shape;
  int rows = 64, columns = 64, depth = 64;  // of the tile, and of a step
  uint32_t local = 128;                     // size of the workgroup
  uint32_t subgroup = 0;                    // the size of subgroups that share the matrices; 0: the workgroup does
  bool tensors = false;                     // loads are from where the operands lie
  int strip_rows = 16;                      // rows of the result that lie in shared memory at once
};

// The shape and the tile for operands stored as `a` and `b`; nullopt, with a reason: not this way. It is empty where
// the device has none such.
std::optional<FlexibleOptions> ChooseFlexibleTile(const TileProblem& problem, ElementType a, ElementType b,
                                                  const Target& target, std::string& reason);
// Why an operand is not loaded from where it lies: `rows`: it is the one whose lines are rows.
Refusal RefusesTensor(const MatrixSource& source, bool rows, const TileProblem& problem, const DeviceProfile& profile);

// `operands` read bits, and are in range along the depth where steps are whole.
Result<EmittedProgram> EmitFlexibleTile(const plan::KernelPlan& plan, const Target& target, const TileProblem& problem,
                                        ElementType stored,
                                        const std::function<TileOperands(KernelWriter&, bool depth_in_range)>& operands,
                                        const FlexibleOptions& options, std::string variant);

}  // namespace krafla::spirv
