// SPDX-License-Identifier: Apache-2.0
// Where expressions of very many formulas are cut: what is left goes through memory as few sums, say, and not as each
// of the formulas that found no room.
#include <algorithm>

#include "plan/element_cost.h"
#include "plan/fusion/fusion_planner.h"

namespace krafla::plan {

void FusionPlanner::FindFormulas() {
  holds_formula_.assign(class_.size(), false);
  for (const auto& owned : computation_.instructions()) {
    const Instruction& i = *owned;
    if (class_[Index(&i)] == Class::kHero || !i.shape().IsArray()) continue;
    holds_formula_[Index(&i)] =
        (class_[Index(&i)] == Class::kFusible &&
         ElementCost(i.opcode(), i.shape().element_type()) >= kLeastFormulaCost) ||
        std::ranges::any_of(i.operands(), [&](const Instruction* o) { return holds_formula_[Index(o)]; });
  }
}

void FusionPlanner::JoinCut(const Instruction& i, const Uses& mine) {
  if (!options_.multi_output || mine.many || mine.contexts.size() != 1 || mine.contexts[0].map != MapId::Own()) return;
  KernelSize& reader = size_of_[mine.contexts[0].kernel];
  if (!reader.is_closed) return;
  // Only that kernel reads it, so that no other value that it reads is made of this one. As many as may be siblings.
  if (reader.cut != nullptr && reader.cut_with < limits_.sibling_roots &&
      reader.cut->shape().dims() == i.shape().dims()) {
    joint_[i.id()] = KernelOf(*reader.cut).instruction;
    ++reader.cut_with;
  } else {
    reader.cut = &i;
    reader.cut_with = 1;
  }
}

}  // namespace krafla::plan
