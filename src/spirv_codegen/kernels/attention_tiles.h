// SPDX-License-Identifier: Apache-2.0
// attention.tiles: a workgroup takes a tile of rows, both of whose products are cooperative matrices. Scores and
// weights of a tile of keys at a time lie in its memory, the result's sums in registers, and nothing of rows x keys in
// buffers.
#pragma once

#include <optional>
#include <string>

#include "spirv_codegen/kernels/attention.h"
#include "spirv_codegen/kernels/coop_sums.h"

namespace krafla::spirv {

struct AttentionTile {
  CooperativeMatrixShape shape;
  int rows = 64, keys = 32;                     // of a turn
  int subgroup_rows = 2, subgroup_columns = 2;  // how the workgroup's subgroups share both products
  uint32_t subgroup = 32;                       // their size
  int64_t depth = 64, columns = 64;             // of the queries and of the result, as whole matrices
  uint32_t local() const { return static_cast<uint32_t>(subgroup_rows * subgroup_columns) * subgroup; }
  // Neighbouring lanes that share a row.
  int64_t row_lanes() const { return int64_t{local()} / rows; }
};

// The tile for the kernel; nullopt, with a reason: not this way.
std::optional<AttentionTile> ChooseAttentionTile(const plan::AttentionKernel& kernel, const Target& target,
                                                 std::string& reason);

// Of kernels with limits the buffer behind the bindings has the flags of EmitFiniteFlags.
Result<EmittedDispatch> EmitAttentionTiles(KernelWriter& w, const plan::AttentionKernel& kernel,
                                           const AttentionPrograms& programs, const Target& target,
                                           const AttentionTile& tile);

}  // namespace krafla::spirv
