// SPDX-License-Identifier: Apache-2.0
// The rules of movement_simplifier, by opcode. Each takes an instruction with static shapes and at least one element
// and returns what may replace it, or null.
#pragma once

#include "ir/module.h"

namespace krafla {

Instruction* SimplifyBroadcast(Instruction* i);
Instruction* SimplifyReshape(Instruction* i);
Instruction* SimplifyTranspose(Instruction* i);
Instruction* SimplifyReverse(Instruction* i);
Instruction* SimplifyIota(Instruction* i);

Instruction* SimplifySlice(Instruction* i);
Instruction* SimplifyPad(Instruction* i);
Instruction* SimplifyConcatenate(Instruction* i);
Instruction* SimplifyDynamicSlice(Instruction* i);
Instruction* SimplifyDynamicUpdateSlice(Instruction* i);

Instruction* SimplifyReduce(Instruction* i);
Instruction* SimplifySort(Instruction* i);
Instruction* SimplifyScatter(Instruction* i);

}  // namespace krafla
