// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/program_plan.h"

namespace krafla::plan {

// The memory that a slice covers. An argument and a result that takes its place are the same memory.
struct SliceExtent {
  int64_t space = 0, begin = 0, end = 0;
  bool Overlaps(const SliceExtent& o) const { return space == o.space && begin < o.end && o.begin < end; }
};
SliceExtent ExtentOf(const ProgramPlan& plan, const Slice& slice);

// Whether two slices hold values in the same bytes at one time. Those of different allocations of the arena do not:
// where these share bytes, they are never alive together.
bool ShareBytes(const ProgramPlan& plan, const Slice& a, const Slice& b);

}  // namespace krafla::plan
