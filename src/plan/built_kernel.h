// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plan/kernel_plan.h"
#include "plan/value_ref.h"

namespace krafla::plan {

// A kernel and the values that its bindings stand for, each resolved through reshapes.
struct BuiltKernel {
  KernelPlan kernel;
  std::vector<ValueRef> values;  // one for each binding
};

}  // namespace krafla::plan
