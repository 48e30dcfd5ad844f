// SPDX-License-Identifier: Apache-2.0
// Element program nodes as SPIR-V: XLA's semantics with every guard that Vulkan needs (integer division by zero and
// out-of-range float to int are undefined behaviour there, so operands are made safe before, not after).
#pragma once

#include <span>

#include "ir/opcode.h"
#include "krafla/status.h"
#include "plan/element_program.h"
#include "spirv_codegen/builder.h"

namespace krafla::spirv {

Kind ComputeKind(ElementType compute_type);

// Unsigned bits as a buffer holds them <-> the value in its compute type. Narrow floats are exact on the way out: a
// node's value is one that its type can hold.
Value FromStorage(Builder& b, ElementType storage, Value bits);
Value ToStorage(Builder& b, ElementType storage, Value value);

// The scalar functions that the device must have to run `program`; an UNIMPLEMENTED error names what is missing.
Result<> CheckProgram(const plan::ElementProgram& program, const DeviceProfile& profile);
Result<> CheckType(ElementType storage, const DeviceProfile& profile);

// The value of `node` from its operands' values; not for kParam, kLoad, kIndex.
Value LowerNode(Builder& b, const plan::ElementProgram& program, const plan::Node& node,
                std::span<const Value> operands);

// One HLO elementwise op on compute type `type`; `hlo_type` is the narrow type of shifts' limits.
Value LowerHlo(Builder& b, Opcode opcode, ElementType type, ElementType hlo_type, std::span<const Value> operands);
Value LowerConvert(Builder& b, ElementType from, ElementType to, Value v);  // compute types
// A result of arithmetic whose bits are seen: a NaN is the NaN (docs/decisions/0003-same-bits.md). Of anything but a
// float: v.
Value SettledNan(Builder& b, Value v);
// What a conversion of `from` gave: a NaN is the quiet one of its sign.
Value SettledConversion(Builder& b, Value v, Value from);
Value LowerRound(Builder& b, ElementType narrow, Value v);  // f32 or f64 -> f32
Value LowerWrap(Builder& b, ElementType narrow, Value v);
Value LowerCompare(Builder& b, ComparisonDirection direction, ElementType type, bool total_order, Value x, Value y);
// XLA's: NaN wins, max(-0, +0) = +0.
Value FloatMax(Builder& b, Value x, Value y);
Value FloatMin(Builder& b, Value x, Value y);

}  // namespace krafla::spirv
