// SPDX-License-Identifier: Apache-2.0
// How large integers can get, from the counts and constants that they are made of.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/module.h"

namespace krafla {

// The largest value of an integer type (or pred), as its type reads it.
uint64_t LargestOf(ElementType type);

// Every element of `x`, an integer array, is in [0, the result]. Nothing where that is not known.
std::optional<uint64_t> UpperBound(const Instruction& x, int depth = 8);

}  // namespace krafla
