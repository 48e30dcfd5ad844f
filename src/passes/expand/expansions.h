// SPDX-License-Identifier: Apache-2.0
// Expansions that more than one pass makes use of: of whole arrays by their own pass, of arrays whose size is known at
// run time only by dynamic_padder. Null: not of this instruction.
#pragma once

#include "passes/rewrite.h"

namespace krafla {

// What the scan kernel does itself: one array, one carry, both results the same elementwise combination.
bool IsRunningCombination(const Instruction& scan);
// A scan as a loop of `turns` iterations, an s32[] of at most the length; null: the length. A scan in reverse begins
// with the last element that has an iteration.
Result<Instruction*> ExpandScan(Instruction* scan, Instruction* turns);

// Of a reduce-window's combiner: the same in any order, sums of floats up to rounding.
bool IsInAnyOrder(const Computation& combiner);
// Whether it is all the same how often the initial value takes part: kernels take it for padding.
bool TakesInitialValueOften(const Computation& combiner, const Instruction& init);

// `counts`: pred of the operand's dimensions, whether an element may be selected; `window_counts`: pred of the source's
// dimensions, whether a window is there. Null: all.
Result<Instruction*> ExpandSelectAndScatter(Instruction* i, Instruction* counts, Instruction* window_counts);

}  // namespace krafla
