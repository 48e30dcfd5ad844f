// SPDX-License-Identifier: Apache-2.0
// The rules of algebraic_simplifier, by kind. Each takes an array instruction with static shapes and returns what may
// replace it, or null.
#pragma once

#include "ir/module.h"

namespace krafla {

Instruction* SimplifyArithmetic(Instruction* i);  // add, subtract, multiply, divide, remainder, power, min, max, ...
Instruction* SimplifyLogic(Instruction* i);       // and, or, xor, not, shifts, compare, select
Instruction* SimplifyConversion(Instruction* i);  // convert, bitcast-convert, reduce-precision, complex, sizes
Instruction* SimplifyProduct(Instruction* i);     // dot

}  // namespace krafla
