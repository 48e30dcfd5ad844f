// SPDX-License-Identifier: Apache-2.0
// A slow machine for SPIR-V that no driver here runs: matrices that a workgroup shares, and loads through tensor
// layouts, as SPV_NV_cooperative_matrix2 words them. It knows the instructions of such products with a plain epilogue.
// Buffers are descriptors. Functions that are called for each element are called twice, in the reverse order, as a
// driver may.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "interpreter.h"

namespace krafla::spirv::testing {

// Runs workgroups `grid` of the module on the buffers of its bindings. Returns what it does not know or what is wrong:
// an access past the end of a buffer, an undefined one of a tensor, memory of a workgroup that is read before it is
// written; empty where all is well.
std::string RunModule(const std::vector<uint32_t>& words, std::array<uint32_t, 3> grid, std::vector<Bytes*> bindings);

}  // namespace krafla::spirv::testing
