// SPDX-License-Identifier: Apache-2.0
// Floats as integers.
#pragma once

#include "krafla/element_type.h"
#include "plan/element_program.h"
#include "spirv_codegen/builder.h"

namespace krafla::spirv {

// The number as s32, u32, s64 or u64, as XLA converts it: NaN gives 0, and numbers out of range saturate.
Value FloatToInt(Builder& b, Value v, ElementType to);

// The same of a number, not a NaN, whose magnitude is at most 2^22 and which is not negative where the type is
// unsigned.
Value SmallFloatToInt(Builder& b, Value v, ElementType to);

// Whether SmallFloatToInt converts the node to `to`: it is clamped to constants that are small enough, and no NaN.
bool IsSmallNumber(const plan::ElementProgram& program, plan::NodeId id, ElementType to);

// A number of f32 within the range of s32 or u32, cut to an integer without OpConvertFToS: see ConversionTuning.
Value TruncateByAddition(Builder& b, Value v);

}  // namespace krafla::spirv
