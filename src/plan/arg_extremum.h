// SPDX-License-Identifier: Apache-2.0
// Combiners of pairs (value, index) that take a largest or smallest value and where it lies, as argmax and argmin are
// written.
#pragma once

#include <optional>

#include "plan/element_program.h"

namespace krafla::plan {

// Whether the combiner takes the larger (else the smaller) value and of equal ones the smaller index:
// v > w || v != v ? v : w, and the index of v where that holds or v == w && i < j. Nothing: it is another one.
std::optional<bool> IsLargestOfPairs(const ElementProgram& combiner);

// The combiner for pairs that come in any order, as lanes side by side take them. Of two NaNs that one takes the left,
// so that the first of a line wins only where all elements come in turn; here, as of other equal values, the smaller
// index wins. Any other combiner stays as it is.
ElementProgram ForPairsInAnyOrder(const ElementProgram& combiner);

}  // namespace krafla::plan
