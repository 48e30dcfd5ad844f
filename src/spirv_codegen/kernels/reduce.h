// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "spirv_codegen/kernels/context.h"

namespace krafla::spirv {

// A small reduction by one workgroup of `local` invocations, which is a subgroup where `subgroup` is as large. The row
// results of a single row may be copies of all invocations (Buffers::KeepCopies) unless a stage stores elements.
// Returns the bytes of shared memory that it takes.
int64_t EmitReduceInGroup(KernelWriter& w, const plan::ReduceKernel& k, uint32_t local, uint32_t subgroup);

}  // namespace krafla::spirv
