// SPDX-License-Identifier: Apache-2.0
// Collectives that go on while kernels run: which instructions are of this kind, and what the estimates are by which
// kernels are ordered around them (fusion/order.cpp) and a launch is parted from the step that awaits it (overlap.cpp).
// None of this changes a result.
#pragma once

#include "ir/module.h"
#include "plan/kernel_plan.h"

namespace krafla::plan {

struct OverlapOptions {
  bool enabled = false;
  // A collective takes `exchange_ns`, and `exchange_ns_per_byte` for each byte of its operands.
  double exchange_ns = 20e3, exchange_ns_per_byte = 0.2;
  // A kernel takes what its operations or its bytes take, whichever is more.
  double ns_per_flop = 0.05, ns_per_byte = 0.1;
  // Work that must be there to be done meanwhile: to hand a collective to another thread and to hear of its end costs
  // two wake-ups.
  double least_hidden_ns = 30e3;
};

// A collective of static shapes as one instruction; a -start form that no pass has joined with its -done runs where it
// stands.
bool MayGoOn(const Instruction& i);

double ExchangeNs(const Instruction& i, const OverlapOptions& options);
// Of the instruction by itself; of a loop with its body, as often as it turns.
double EstimatedNs(const Instruction& i, const OverlapOptions& options);
double EstimatedNs(const KernelPlan& kernel, const OverlapOptions& options);

}  // namespace krafla::plan
