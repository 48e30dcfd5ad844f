// SPDX-License-Identifier: Apache-2.0
// The border between a plan and what runs it. Executors hand bare addresses to kernels, so what a kernel may touch is
// compared with what its slices hold before anything runs.
#pragma once

#include "krafla/status.h"
#include "plan/program_plan.h"

namespace krafla::plan {

// INTERNAL unless every slice of every step lies inside its allocation, every allocation is as large as
// what it stands for, every launch gives each binding as many bytes as its kernel touches, and every copy fits. A host
// kernel's bindings must be the arrays that its instruction takes and gives.
Result<> CheckPlan(const ProgramPlan& plan);

}  // namespace krafla::plan
