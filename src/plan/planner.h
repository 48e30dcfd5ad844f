// SPDX-License-Identifier: Apache-2.0
// Turns a verified, optimised module into a ProgramPlan. This touches no device and depends on nothing but its
// arguments.
#pragma once

#include <memory>

#include "ir/verifier.h"
#include "krafla/status.h"
#include "plan/fusion/fusion.h"
#include "plan/program_plan.h"

namespace krafla::plan {

struct PlanOptions {
  FusionOptions fusion;
  // Whether a donated parameter shares its buffer with the result that updates it in place.
  bool alias_donated = true;
};

Result<ProgramPlan> PlanProgram(VerifiedModule module, const PlanOptions& options);

// The kernels and the steps with their slices and sizes as text, for people.
std::string ToString(const ProgramPlan& plan);

}  // namespace krafla::plan
