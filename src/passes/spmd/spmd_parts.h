// SPDX-License-Identifier: Apache-2.0
// Sums that stay in parts (Value::unreduced): devices along some axes each have one, and the value is their sum.
#pragma once

#include <span>
#include <vector>

#include "passes/spmd/spmd_emitter.h"

namespace krafla::spmd {

// Whether a part of a sum is made into a part of the result's sum: of an operation that is linear in the operands that
// are in parts, all along the same axes. Then those axes; none for an operation that needs the sums.
std::vector<Split> PartsThrough(const Instruction& instruction, std::span<const Value> operands);

// Whether the computation is the sum of its two parameters.
bool AddsTwo(const Computation& computation);
// Whether the elements can be added up: numbers, no logical values.
bool IsNumber(ElementType type);

}  // namespace krafla::spmd
