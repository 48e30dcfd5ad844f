// SPDX-License-Identifier: Apache-2.0
// Kernels that differ only in where they begin are one kernel.
#pragma once

#include "plan/program_plan.h"

namespace krafla::plan {

// What a launch moves that is little work.
constexpr double kSmallKernelBytes = 1 << 18;

// Layers of a network often have their place in one array (a cache of keys and values, stacked weights): their kernels
// are equal but for a constant in the indices, and each would be compiled on its own. Where kernels become equal by it,
// that constant goes from their indices to the offsets of their launches' slices, in steps of 256 bytes
// (minStorageBufferOffsetAlignment is at most that), and one kernel stays. All other kernels stay as they are, and so
// do small ones that loops launch.
void ShareKernels(ProgramPlan& plan);

}  // namespace krafla::plan
