// SPDX-License-Identifier: Apache-2.0
// A loop with little to do as one kernel: its steps, those of loops and branches inside it too, are done by one
// workgroup, with barriers where one reads what another stored.
#pragma once

#include <vector>

#include "plan/program_plan.h"
#include "spirv_codegen/emit.h"

namespace krafla::spirv {

struct EmittedLoop {
  EmittedKernel kernel;  // its buffers are numbers of `slices`; its push word: how many turns it does at most
  std::vector<plan::Slice> slices;
  int64_t most_turns = 1;  // that a launch should do, so that the device answers
  double turn_ms = 0;      // estimated, rather too much
};

// A launch does as many turns as the push word says, of a loop whose count is not known as long as the condition holds;
// that leaves the predicate behind, which is false when the loop is over. UNIMPLEMENTED: the loop has too much to do,
// or what has no code here.
Result<EmittedLoop> EmitLoopNest(const plan::ProgramPlan& plan, const plan::WhileStep& loop,
                                 const DeviceProfile& profile, const Tuning& tuning);

}  // namespace krafla::spirv
