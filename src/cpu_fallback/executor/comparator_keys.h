// SPDX-License-Identifier: Apache-2.0
// What a sort's comparator compares: the same functions of both sides, one after the other.
#pragma once

#include <vector>

#include "plan/element_program.h"

namespace krafla::cpu {

struct KeyRule {
  plan::NodeId node = plan::kNoNode;  // the key of the left side
  ElementType type = ElementType::kF32;
  bool total_order = false, descending = false;
};

// The keys in the order in which they count; empty where the comparator is something else. Floats compared plainly have
// no order with NaN; as keys NaNs come last, as in total order, and zeros are equal.
std::vector<KeyRule> FindKeys(const plan::ElementProgram& comparator);

}  // namespace krafla::cpu
