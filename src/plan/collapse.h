// SPDX-License-Identifier: Apache-2.0
// Joins neighbouring iteration dimensions that every index of a program walks as one: fewer loops, longer rows, and
// more kernels that are the same problem.
#pragma once

#include <span>
#include <vector>

#include "plan/element_program.h"

namespace krafla::plan {

// Entry i: dimensions i and i+1 can be one in this program.
std::vector<bool> CollapsibleBoundaries(const ElementProgram& program);

// The program over joined dimensions: dimension d becomes part of group_of[d] (0, 0, 1, ...), rising by at most one.
ElementProgram JoinDims(const ElementProgram& program, std::span<const int> group_of);

// Joins all that can be joined, in all programs at once; each runs over a prefix of the first one's dimensions.
// Boundaries in `keep` stay. Returns group_of of the longest program's dimensions.
std::vector<int> CollapseTogether(std::span<ElementProgram* const> programs, std::span<const int> keep = {});

}  // namespace krafla::plan
