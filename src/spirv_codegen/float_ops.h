// SPDX-License-Identifier: Apache-2.0
// Floating point as SPIR-V with XLA's results: see numerics/formulas.h for the functions, numerics/formats.h for the
// narrow formats. GLSL.std.450 is used only where its promise is enough.
#pragma once

#include <span>

#include "ir/opcode.h"
#include "krafla/element_type.h"
#include "spirv_codegen/builder.h"

namespace krafla::spirv {

// The code of the narrow float nearest to an f32, ties to even, in the low bits of a u32. `exact`: the value is known
// to be one of the format.
Value EncodeFloat(Builder& b, ElementType narrow, Value v, bool exact);
Value DecodeFloat(Builder& b, ElementType narrow, Value code);  // exact
// The value of the format `narrow` nearest to an f32 or f64, as an f32; rounds once.
Value RoundFloat(Builder& b, ElementType narrow, Value v);
// What RoundFloat made of `from`: of a NaN the format's quiet one with its sign, whatever the device's is.
Value SettledRound(Builder& b, ElementType narrow, Value rounded, Value from);
// The number, which is not the result of the device's conversion from f16 where a driver would compare it with `other`
// as halves (see ConversionTuning::halves_by_bits).
Value NotAWidenedHalf(Builder& b, Value v, Value other);
Value ReducePrecision(Builder& b, Value v, int exponent_bits, int mantissa_bits);
Value IntToFloat(Builder& b, Value v, bool is_signed, Kind kind);

// The result of an HLO operation on f32 or f64; an empty value for an operation that is not one of these.
Value LowerFloat(Builder& b, Opcode opcode, std::span<const Value> operands);
// Of f32 by the hardware's own functions; an empty value for an operation that has none.
Value LowerFastF32(Builder& b, Opcode opcode, std::span<const Value> operands);
Value LowerF64(Builder& b, Opcode opcode, std::span<const Value> operands);

// HLO's minimum, or maximum, of a number and a constant by one comparison; an empty value where neither is a constant,
// both are, or it is a NaN or subnormal.
Value ExtremeOfConstant(Builder& b, Value x, Value y, bool smallest);

// The correctly rounded quotient; the instruction of a device promises less (Vulkan: 2.5 ULP).
Value DivideFloat(Builder& b, Value x, Value y);
Value SqrtFloat(Builder& b, Value x);

}  // namespace krafla::spirv
