// SPDX-License-Identifier: Apache-2.0
// Which instructions do more than give a value, and which must stay where they stand. Each computation is looked at
// once.
#pragma once

#include <unordered_map>

#include "ir/module.h"

namespace krafla::plan {

class EffectFacts {
 public:
  // A transfer, a call of the host's that says so, or what has one in a computation that it calls.
  bool HasEffect(const Instruction& i);
  // Effects and meetings of devices stay in the order in which they stand: a device that received before it sent would
  // wait for one that does the same, and devices with programs of their own must come to their meetings in one order.
  bool KeepsItsPlace(const Instruction& i);

 private:
  bool AnyCalled(const Instruction& i, bool (EffectFacts::*does)(const Instruction&),
                 std::unordered_map<const Computation*, bool>& known);

  std::unordered_map<const Computation*, bool> has_effect_, keeps_place_;
};

}  // namespace krafla::plan
