// SPDX-License-Identifier: Apache-2.0
// How much a program does, as XLA counts it: an estimate for people and schedulers, no promise.
#pragma once

#include "ir/module.h"

namespace krafla {

struct ProgramCost {
  double flops = 0;
  double transcendentals = 0;  // exp, log, tanh, ...: not among flops
  double bytes_accessed = 0;   // operands and results of every instruction
};

// One turn of a loop counts, and the dearest branch of a conditional.
ProgramCost CostOf(const Module& module);

}  // namespace krafla
