// SPDX-License-Identifier: Apache-2.0
// Launches as one (HorizontalKernel): such as do not depend on one another, and dots that follow a dot.
//
// A dot follows one that has the same operands but for one, lies in memory alike, and is of the same size, if its
// epilogue reads of what that one writes the element that it computes itself: the product that SwiGLU multiplies with
// the gate. Whoever computes an element of both computes the gate's first.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "plan/program_plan.h"

namespace krafla::plan {

// Of launches that become one, as each step between is compared.
inline constexpr std::size_t kMostStepsApart = 16;

struct FusedLaunches {
  KernelPlan kernel;
  std::vector<Slice> bindings;
};
// The launches, of kernels of `plan`, with one binding for each slice that they touch. They are loops, reductions and
// dots, or have been made of such. Nothing where they would have more than `most_bindings`.
std::optional<FusedLaunches> FuseLaunches(const ProgramPlan& plan, std::span<const LaunchStep* const> launches,
                                          int most_bindings);

// Whether the launch `b` may run as a dot that follows the dot `a`.
bool Follows(const ProgramPlan& plan, const LaunchStep& b, const LaunchStep& a);

// For each part the one before it that it follows; -1: none.
std::vector<int> FollowedParts(const HorizontalKernel& horizontal);

// Operations of a loop's or reduction's programs; 0 of other kernels.
std::size_t NodesOf(const ProgramPlan& plan, const LaunchStep& launch);

// Whether two launches are worth one: products that read an operand in common, or loops or reductions of little work.
bool AreWorthOne(const ProgramPlan& plan, const LaunchStep& a, const LaunchStep& b, int64_t most_elements);

}  // namespace krafla::plan
