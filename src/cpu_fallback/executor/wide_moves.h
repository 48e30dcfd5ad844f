// SPDX-License-Identifier: Apache-2.0
// Programs that only move numbers move them in the pieces in which they lie in memory.
#pragma once

#include "plan/element_program.h"

namespace krafla::cpu {

// A program that moves complex numbers of two f32 as elements of 8 bytes, or one that takes wide numbers apart (a
// bitcast-convert to a narrower type) as elements of that type. Any other program as it is.
plan::ElementProgram InPiecesOfMemory(const plan::ElementProgram& program);

}  // namespace krafla::cpu
