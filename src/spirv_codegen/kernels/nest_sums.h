// SPDX-License-Identifier: Apache-2.0
// A dot within a loop that is one kernel: each invocation takes one sum at a time, or four neighbours in a row.
#pragma once

#include "spirv_codegen/kernels/matrix.h"

namespace krafla::spirv {

// How many sums an invocation takes at once where `lanes` share all of them: 1 or 4.
int NestSumsAtOnce(const plan::DotKernel& k, const LoopTuning& tuning, int64_t lanes);

// The operations of those, as OperationsOf counts them.
double NestSumsOperations(const plan::DotKernel& k, int width);

// Emits item `item` of the dot's sums, of which each has `width` of them, and stores what its epilogue makes of them.
void EmitNestSums(KernelWriter& w, const plan::DotKernel& k, Value item, int width);

}  // namespace krafla::spirv
