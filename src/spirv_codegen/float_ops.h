// SPDX-License-Identifier: Apache-2.0
// Floating point as SPIR-V with XLA's results: see numerics/formulas.h for the functions, numerics/formats.h for the
// narrow formats. GLSL.std.450 is used only where its promise is enough.
#pragma once

#include <span>

#include "ir/opcode.h"
#include "krafla/element_type.h"
#include "spirv_codegen/builder.h"

namespace krafla::spirv {

// f32 -> the code of a narrow float in the low bits of a u32, to nearest even. `exact`: the value is known to be one
// of the format's.
Value EncodeFloat(Builder& b, ElementType narrow, Value v, bool exact);
Value DecodeFloat(Builder& b, ElementType narrow, Value code);  // exact
// f32 or f64 -> f32: the nearest value of `narrow`; one rounding.
Value RoundFloat(Builder& b, ElementType narrow, Value v);
Value ReducePrecision(Builder& b, Value v, int exponent_bits, int mantissa_bits);
Value IntToFloat(Builder& b, Value v, bool is_signed, Kind kind);

// HLO ops on f32 or f64. An empty value: not one of them.
Value LowerFloat(Builder& b, Opcode opcode, std::span<const Value> operands);
Value LowerF64(Builder& b, Opcode opcode, std::span<const Value> operands);

// Correctly rounded where the device's own instruction promises less (Vulkan: 2.5 ULP).
Value DivideFloat(Builder& b, Value x, Value y);
Value SqrtFloat(Builder& b, Value x);

}  // namespace krafla::spirv
