// SPDX-License-Identifier: Apache-2.0
// Loops that depend on their data, gone through by the device alone: turns are submitted ahead, each launch of them
// under a predicate (vk::Launch::predicate) that the loop's own condition clears, and the host looks now and then
// whether it is over. Copies are launches then, since a predicate holds for nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>

#include "plan/program_plan.h"
#include "spirv_codegen/emit.h"

namespace krafla {

struct TurnKernels {
  std::set<const plan::WhileStep*> loops;
  // One launch of one kernel each. Bindings: the loop's pred, the count of turns, the predicate (written), the count
  // (written); of a copy of so many bytes: from, to (written).
  spirv::EmittedProgram gate;
  std::map<int64_t, spirv::EmittedProgram> copies;
};

// Of the loops of the plan that are not counted, those in which nothing but launches and copies goes on, with their
// kernels; without those that `is_fit` says no to, and what is in them. `runs_here`: whether the device has code for a
// kernel of the plan.
Result<TurnKernels> EmitTurnKernels(const plan::ProgramPlan& plan, const DeviceProfile& profile,
                                    const spirv::EmitOptions& options,
                                    const std::function<bool(const plan::WhileStep&)>& is_fit,
                                    const std::function<bool(int kernel)>& runs_here);

}  // namespace krafla
