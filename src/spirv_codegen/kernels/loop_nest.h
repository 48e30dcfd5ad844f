// SPDX-License-Identifier: Apache-2.0
// A loop with little work as one kernel: one workgroup runs its steps, and those of the loops and branches inside it,
// with barriers where a step reads what another one stored.
#pragma once

#include <vector>

#include "plan/program_plan.h"
#include "spirv_codegen/emit.h"

namespace krafla::spirv {

struct EmittedLoop {
  EmittedKernel kernel;  // its buffers are numbered as `slices`; its push word is the most turns that it does
  std::vector<plan::Slice> slices;
  int64_t most_turns = 1;  // the most turns of a launch, so that the device answers in time
  double turn_ms = 0;      // estimated, rather too much
};

// A launch does as many turns as the push word says or, of a loop whose trip count is not known, fewer where the
// condition ends it; the predicate that it leaves is false when the loop is over. UNIMPLEMENTED where the loop has too
// much work, or a step that is not implemented here.
Result<EmittedLoop> EmitLoopNest(const plan::ProgramPlan& plan, const plan::WhileStep& loop,
                                 const DeviceProfile& profile, const Tuning& tuning);

}  // namespace krafla::spirv
