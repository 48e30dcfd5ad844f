// SPDX-License-Identifier: Apache-2.0
// Joins neighbouring iteration dimensions that every index of a program walks as one: fewer loops, longer rows, and
// more kernels that are the same problem.
#pragma once

#include <span>
#include <vector>

#include "plan/element_program.h"

namespace krafla::plan {

// Entry i says whether dimensions i and i + 1 of this program can be joined.
std::vector<bool> CollapsibleBoundaries(const ElementProgram& program);

// The program over joined dimensions: dimension d becomes part of dimension group_of[d]. group_of begins with 0, and
// each entry is its predecessor or one more.
ElementProgram JoinDims(const ElementProgram& program, std::span<const int> group_of);

// Joins all dimensions that can be joined in every program; each program runs over a prefix of the first one's
// dimensions. The boundaries in `keep` stay. Returns group_of for the dimensions of the longest program.
std::vector<int> CollapseTogether(std::span<ElementProgram* const> programs, std::span<const int> keep = {});

}  // namespace krafla::plan
