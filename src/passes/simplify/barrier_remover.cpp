// SPDX-License-Identifier: Apache-2.0
// opt-barrier keeps the simplifiers from merging what it separates (a recomputation with what it recomputes). Once
// they are done it is its operand.
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {

Result<bool> BarrierRemover(Module& module, const PassOptions&) {
  return RewriteAll(module, Opcode::kOptimizationBarrier,
                    [](Instruction* i) -> Result<Instruction*> { return i->operand(0); });
}

}  // namespace krafla
