// SPDX-License-Identifier: Apache-2.0
// The bytes that a step may touch, with all that it runs.
#pragma once

#include <vector>

#include "plan/program_plan.h"

namespace krafla::plan {

struct TouchedSlice {
  Slice slice;
  bool written = false;  // else it is only read
};

// Of the step, of the steps inside it, and of what it calls; each slice as often as it comes. An AwaitStep touches
// nothing. Row groups: the whole of each allocation.
std::vector<TouchedSlice> SlicesOf(const ProgramPlan& plan, const Step& step);

// Whether two slices may share bytes, before temporaries have been given their places in the arena or behind that: a
// result may lie where an argument does.
enum class Arena : uint8_t { kIsOpen, kIsPacked };
bool MayShareBytes(const ProgramPlan& plan, const Slice& a, const Slice& b, Arena arena);

// Whether one of the steps must have ended before the other begins.
bool Conflict(const ProgramPlan& plan, const std::vector<TouchedSlice>& a, const std::vector<TouchedSlice>& b,
              Arena arena);

}  // namespace krafla::plan
