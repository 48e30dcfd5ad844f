// SPDX-License-Identifier: Apache-2.0
// What fusion asks the families before any kernel is built.
#pragma once

#include "plan/fusion/fusion_plan.h"

namespace krafla::plan {

// Whether a family takes this instruction as a hero. The evaluator runs an instruction that no family takes.
// `elements`: the most that an operand or the result may have. Dots and reductions reach so many without arithmetic on
// the index of an element.
inline constexpr int64_t kMostStridedElements = (int64_t{1} << 31) - 1;
bool TakesReduce(const Instruction& i, int64_t elements = kMostStridedElements);
// Whether an instruction is of two different parameters alone.
bool IsOfTwoParameters(const Instruction& step);
// Whether a combiner is the product of its two parameters, complex numbers.
bool MultipliesComplex(const Computation& combiner);
bool TakesReduceWindow(const Instruction& i);
bool TakesDot(const Instruction& i, int64_t elements = kMostStridedElements);
bool TakesConvolution(const Instruction& i);
bool TakesSort(const Instruction& i);
bool TakesScan(const Instruction& i);
bool TakesScatter(const Instruction& i);
bool TakesFft(const Instruction& i);
bool TakesLinalg(const Instruction& i);
bool TakesRngBitGenerator(const Instruction& i);

// Whether the members of a reduce group run over the same rows and elements. This is cheap and builds nothing.
bool RegionFits(const FusionGroup& group);
// Whether operand `n` of a sort is the position along its dimension, and is only carried along.
bool IsCarriedPosition(const Instruction& sort, std::size_t n);
// The array or scalar that a scan's kernel reads its first carry from.
const Instruction* ScanStart(const Instruction& scan);

}  // namespace krafla::plan
