// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "spirv_codegen/kernels/context.h"

namespace krafla::spirv {

// Emits a small reduction by one workgroup of `local` invocations, which is one subgroup where `subgroup` equals
// `local`. The results of a single row may be copies that all invocations have (Buffers::KeepCopies), unless a stage
// stores elements. Returns the bytes of shared memory that the reduction takes.
int64_t EmitReduceInGroup(KernelWriter& w, const plan::ReduceKernel& k, uint32_t local, uint32_t subgroup);

}  // namespace krafla::spirv
