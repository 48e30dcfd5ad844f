// SPDX-License-Identifier: Apache-2.0
#include "plan/effect_facts.h"

#include <algorithm>

namespace krafla::plan {

bool EffectFacts::HasEffect(const Instruction& i) {
  if (HasTrait(i.opcode(), op_trait::kSideEffect)) return true;
  if (i.opcode() == Opcode::kCustomCall && i.attr<CustomCallAttributes>().has_side_effect) return true;
  return AnyCalled(i, &EffectFacts::HasEffect, has_effect_);
}

bool EffectFacts::KeepsItsPlace(const Instruction& i) {
  if (HasEffect(i) || HasTrait(i.opcode(), op_trait::kCollective)) return true;
  return AnyCalled(i, &EffectFacts::KeepsItsPlace, keeps_place_);
}

bool EffectFacts::AnyCalled(const Instruction& i, bool (EffectFacts::*does)(const Instruction&),
                            std::unordered_map<const Computation*, bool>& known) {
  return std::ranges::any_of(i.called(), [&](const Computation* c) {
    auto [it, fresh] = known.emplace(c, false);
    if (!fresh) return it->second;
    const bool any = std::ranges::any_of(c->instructions(), [&](const auto& inner) { return (this->*does)(*inner); });
    return known[c] = any;
  });
}

}  // namespace krafla::plan
