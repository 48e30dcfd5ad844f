// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plan/kernel_plan.h"
#include "plan/value_ref.h"

namespace krafla::plan {

// A kernel and what it binds. Inputs and outputs are values resolved through reshapes.
struct BuiltKernel {
  KernelPlan kernel;
  std::vector<ValueRef> values;  // one per binding
};

}  // namespace krafla::plan
