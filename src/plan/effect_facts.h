// SPDX-License-Identifier: Apache-2.0
// Which instructions do more than compute a value, and which must keep their place in the order. What is found of a
// computation is remembered.
#pragma once

#include <unordered_map>

#include "ir/module.h"

namespace krafla::plan {

class EffectFacts {
 public:
  // Whether it is a transfer, a custom call that says it has side effects, or calls a computation with one of these.
  bool HasEffect(const Instruction& i);
  // Whether it has an effect or is a collective. These stay in the order in which they stand: two devices that both
  // received before they sent would wait for each other, and devices with different programs must come to their
  // collectives in the same order.
  bool KeepsItsPlace(const Instruction& i);

 private:
  bool AnyCalled(const Instruction& i, bool (EffectFacts::*does)(const Instruction&),
                 std::unordered_map<const Computation*, bool>& known);

  std::unordered_map<const Computation*, bool> has_effect_, keeps_place_;
};

}  // namespace krafla::plan
