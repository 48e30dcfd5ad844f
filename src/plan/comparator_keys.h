// SPDX-License-Identifier: Apache-2.0
// What a sort's comparator compares: the same functions of both sides, one after the other.
#pragma once

#include <span>
#include <vector>

#include "plan/element_program.h"

namespace krafla::plan {

struct KeyRule {
  NodeId node = kNoNode;  // the key of the left side
  ElementType type = ElementType::kF32;
  bool total_order = false, descending = false;
};

// The keys in the order in which they count; empty where the comparator is something else. Floats compared plainly have
// no order with NaN; as keys NaNs come last, as in total order, and zeros are equal.
std::vector<KeyRule> FindKeys(const ElementProgram& comparator);

// The operands that a key is made of, rising: the params 2 i of the comparator that `node` reaches.
std::vector<int> KeyOperands(const ElementProgram& comparator, NodeId node);

// How many bits of a key tell values apart, where it comes from a narrower type: of an integer the low `low_bits` (with
// their sign where `is_signed`), of a float all but the last `same_bits`, which depend on the others.
struct KeyWidth {
  int low_bits = 64, same_bits = 0;
};
// `types`: of the operands, as stored.
KeyWidth WidthOfKey(const ElementProgram& comparator, const KeyRule& rule, std::span<const ElementType> types);

}  // namespace krafla::plan
