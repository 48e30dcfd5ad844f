// SPDX-License-Identifier: Apache-2.0
// Removes instructions that nothing needs, and computations that nothing calls.
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {

Result<bool> Dce(Module& module, const PassOptions&) {
  bool changed = false;
  SideEffects effects;
  // Callers first: a call that goes takes its computation with it, which then needs no work.
  std::vector<Computation*> order = ReachableComputations(module);
  for (auto it = order.rbegin(); it != order.rend(); ++it) changed |= RemoveDead(**it, effects);
  changed |= RemoveUncalled(module);
  return changed;
}

}  // namespace krafla
