// SPDX-License-Identifier: Apache-2.0
// Nodes of element programs as SPIR-V, with XLA's semantics. Integer division by zero and conversions of floats that
// are out of range are undefined in Vulkan, so operands are made safe before the instruction.
#pragma once

#include <span>

#include "ir/opcode.h"
#include "krafla/status.h"
#include "plan/element_program.h"
#include "spirv_codegen/builder.h"

namespace krafla::spirv {

Kind ComputeKind(ElementType compute_type);

// The value in its compute type from unsigned bits as a buffer holds them, and back. Narrow floats are encoded without
// rounding, because the value of a node is always one that its type can hold.
Value FromStorage(Builder& b, ElementType storage, Value bits);
Value ToStorage(Builder& b, ElementType storage, Value value);

// UNIMPLEMENTED where the device lacks a type or an operation that `program` needs; the message names what is missing.
Result<> CheckProgram(const plan::ElementProgram& program, const DeviceProfile& profile);
Result<> CheckType(ElementType storage, const DeviceProfile& profile);

// The value of `node` from its operands' values; not for kParam, kLoad, kIndex.
Value LowerNode(Builder& b, const plan::ElementProgram& program, const plan::Node& node,
                std::span<const Value> operands);

// One elementwise operation of HLO on the compute type `type`. The width of `hlo_type` is the limit of shifts.
Value LowerHlo(Builder& b, Opcode opcode, ElementType type, ElementType hlo_type, std::span<const Value> operands);
Value LowerConvert(Builder& b, ElementType from, ElementType to, Value v);  // compute types
// A result of arithmetic as it must be where its bits are seen: every NaN becomes the one NaN of
// docs/decisions/0003-same-bits.md. What is no float stays as it is.
Value SettledNan(Builder& b, Value v);
// The result of a conversion of `from` as it must be where its bits are seen: a NaN becomes the quiet NaN of its sign.
Value SettledConversion(Builder& b, Value v, Value from);
Value LowerRound(Builder& b, ElementType narrow, Value v);  // f32 or f64 -> f32
Value LowerWrap(Builder& b, ElementType narrow, Value v);
Value LowerCompare(Builder& b, ComparisonDirection direction, ElementType type, bool total_order, Value x, Value y);
// XLA's maximum: NaN if either is NaN, and max(-0, +0) = +0.
Value FloatMax(Builder& b, Value x, Value y);
Value FloatMin(Builder& b, Value x, Value y);

}  // namespace krafla::spirv
