// SPDX-License-Identifier: Apache-2.0
// Whether it matters to a reduction in which order its elements come.
#pragma once

#include "plan/kernel_plan.h"

namespace krafla::plan {

// Whether the combiner gives the same for its two sides exchanged, as far as the program shows it: it is the same
// program then, up to the order of the operands of commutative operations and of comparisons.
bool IsCommutative(const ElementProgram& combiner);

// Whether elements have to be combined in their order, in groups of any size: a combiner has to be associative, not
// commutative. Products of matrices and what takes the first of some values are such.
bool DependsOnOrder(const Reduction& reduction);

// Whether elements have to be combined one after the other, as XLA does: what a window selects by a comparison that
// meets a NaN, or by one that is no order, is another element where parts of the window are combined first.
bool CombinesInTurn(const Reduction& reduction);

// Of such a reduction: whether that is so for a NaN alone.
bool IsOrderWithoutNan(const Reduction& reduction);

}  // namespace krafla::plan
