// SPDX-License-Identifier: Apache-2.0
// Loops that only move elements: slices, joins, pads, reversals, transposes, rows that are gathered. An invocation
// takes a block of points whose elements it reads and stores by words, so that what it does for an element's index it
// does once for many of them. So are loops that compute, as `loop.words`, where that makes fewer reads and stores.
#pragma once

#include "spirv_codegen/kernels/context.h"
#include "spirv_codegen/kernels/move_block.h"
#include "spirv_codegen/kernels/variant.h"

namespace krafla::spirv {

class LoopProblem;

Refusal RefusesLoopMove(const LoopProblem& problem);
Result<EmittedProgram> EmitLoopMove(const LoopProblem& problem);

}  // namespace krafla::spirv
