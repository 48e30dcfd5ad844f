// SPDX-License-Identifier: Apache-2.0
// Sums of products over a depth that is too long for one workgroup, whose work nothing can cut: the depth is split into
// parts, whose sums go to scratch, and another kernel adds them up and runs the epilogue.
#pragma once

#include "spirv_codegen/kernels/matrix.h"

namespace krafla::spirv {

// What a workgroup takes of the depth at the most is twice this.
inline constexpr int64_t kPartDepth = int64_t{1} << 17;

// Into how many parts the depth of `outputs` sums is split; 1: not at all, which also goes for sums too many to be
// kept.
int64_t PartCount(int64_t depth, int64_t outputs);

// `plan` with the sums of all parts, of `accumulate`, as one binding more.
plan::KernelPlan WithParts(const plan::KernelPlan& plan, ElementType accumulate, int64_t parts, int64_t outputs);
// The epilogue that stores sums over [parts, dims...] there, `first` entries from its beginning.
plan::ElementProgram PartEpilogue(const plan::KernelPlan& with_parts, std::span<const int64_t> dims,
                                  ElementType accumulate, int64_t first = 0);

struct PartSums {
  const plan::ElementProgram& epilogue;  // of the whole
  ElementType accumulate, result;
  int64_t parts = 1;
};
// Adds up the parts, in the first scratch buffer of the program, and finishes.
Result<> AddJoin(EmittedProgram& out, const plan::KernelPlan& plan, const PartSums& sums, const Target& target);
// Puts `part`, emitted for WithParts, into a program of the plan itself. `work`: of all its dispatches.
void AddParts(EmittedProgram& out, EmittedProgram part, double work);

}  // namespace krafla::spirv
