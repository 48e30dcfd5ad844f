// SPDX-License-Identifier: Apache-2.0
// From a verified, optimised module to a ProgramPlan. Pure: no device is touched.
#pragma once

#include <memory>

#include "ir/verifier.h"
#include "krafla/status.h"
#include "plan/fusion/fusion.h"
#include "plan/program_plan.h"

namespace krafla::plan {

struct PlanOptions {
  FusionOptions fusion;
  // Share the buffer of a donated parameter with the result that updates it in place.
  bool alias_donated = true;
};

Result<ProgramPlan> PlanProgram(VerifiedModule module, const PlanOptions& options);

// For people: steps with kernels, slices and sizes.
std::string ToString(const ProgramPlan& plan);

}  // namespace krafla::plan
