// SPDX-License-Identifier: Apache-2.0
// Writes down how often each counted loop turns (XLA: while_loop_trip_count_annotator.cc). A loop that never turns is
// its initial state, one that turns once is its body.
#include "passes/loops/loop.h"
#include "passes/passes.h"

namespace krafla {

Result<bool> WhileTripCount(Module& module, const PassOptions&) {
  SideEffects effects;
  bool annotated = false;
  KRAFLA_ASSIGN(bool inlined, RewriteAll(module, Opcode::kWhile, [&](Instruction* i) -> Result<Instruction*> {
                  auto count = TripCount(*i);
                  if (!count) return nullptr;
                  const WhileAttributes* had = std::get_if<WhileAttributes>(&i->attributes());
                  if (had == nullptr || had->known_trip_count != count) {
                    i->set_attributes(WhileAttributes{count});
                    annotated = true;
                  }
                  if (effects.Has(*i->called(0)) || effects.Has(*i->called(1))) return nullptr;
                  if (*count == 0) return i->operand(0);
                  if (*count != 1) return nullptr;
                  KRAFLA_TRY(i->called(1)->SortTopologically());
                  Instruction* state = i->operand(0);
                  return InlineInto(*i->parent(), *i->called(1), {&state, 1});
                }));
  return annotated || inlined;
}

}  // namespace krafla
