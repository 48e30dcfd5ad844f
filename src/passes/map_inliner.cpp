// SPDX-License-Identifier: Apache-2.0
// map(f)(x, y) with a scalar f becomes the instructions of f on whole arrays (XLA: map_inliner.cc). A map whose
// computation does more than elementwise arithmetic stays.
#include "passes/lift.h"
#include "passes/passes.h"

namespace krafla {

Result<bool> MapInliner(Module& module, const PassOptions&) {
  return RewriteAll(module, Opcode::kMap, [](Instruction* map) -> Result<Instruction*> {
    if (!IsStatic(*map)) return nullptr;
    Computation* f = map->called(0);
    KRAFLA_TRY(f->SortTopologically());
    Rewriter rewrite(*map);
    return LiftInto(rewrite, *f, map->operands(), map->shape().dims());
  });
}

}  // namespace krafla
