// SPDX-License-Identifier: Apache-2.0
// Sums of products over a depth that is too long for one workgroup, whose work cannot be cut. The depth is split into
// parts, whose sums go to scratch, and another kernel adds these up and runs the epilogue.
#pragma once

#include "spirv_codegen/kernels/matrix.h"

namespace krafla::spirv {

// The depth of a part; a workgroup takes at most twice as much.
inline constexpr int64_t kPartDepth = int64_t{1} << 17;

// Into how many parts the depth of `outputs` sums is split. It is 1 for depths that are short enough, and where there
// are too many sums to keep.
int64_t PartCount(int64_t depth, int64_t outputs);

// The same for sums that are too few to fill the device (DotTuning::wanted_sums), in parts of so much at the least.
int64_t FillingParts(int64_t depth, int64_t outputs, int64_t least_part, const DotTuning& tuning);

// `plan` with one more binding, which holds the sums of all parts in the type `accumulate`.
plan::KernelPlan WithParts(const plan::KernelPlan& plan, ElementType accumulate, int64_t parts, int64_t outputs);
// The epilogue that stores sums over [parts, dims...] to that binding, from entry `first` on.
plan::ElementProgram PartEpilogue(const plan::KernelPlan& with_parts, std::span<const int64_t> dims,
                                  ElementType accumulate, int64_t first = 0);

struct PartSums {
  const plan::ElementProgram& epilogue;  // of the plan itself
  ElementType accumulate, result;
  int64_t parts = 1;
};
// Adds the kernel that adds up the parts in the program's first scratch buffer and runs the epilogue.
Result<> AddJoin(EmittedProgram& out, const plan::KernelPlan& plan, const PartSums& sums, const Target& target);
// Puts `part`, which was emitted for WithParts(), into a program for the plan itself. `work` is the share of all its
// dispatches.
void AddParts(EmittedProgram& out, EmittedProgram part, double work);

}  // namespace krafla::spirv
