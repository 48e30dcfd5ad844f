// SPDX-License-Identifier: Apache-2.0
// Reads a sort's comparator as a list of keys: functions of one side that are compared with the same functions of the
// other side, the next one where those before it are equal.
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

// The keys, the most significant first; empty where the comparator is something else. A plain comparison of floats puts
// NaN nowhere; as keys NaNs come last, as in the total order, and the two zeros are equal.
std::vector<KeyRule> FindKeys(const ElementProgram& comparator);

// The operands that a key is computed from, in rising order: operand i where `node` reaches param 2 * i.
std::vector<int> KeyOperands(const ElementProgram& comparator, NodeId node);

// Which bits of a key tell values apart, where its values come from a narrower type. Of an integer they are the low
// `low_bits`, the highest of them the sign where `is_signed`; of a float all but the last `same_bits`, which the other
// bits decide.
struct KeyWidth {
  int low_bits = 64, same_bits = 0;
};
// `types`: the operands' types as they are stored.
KeyWidth WidthOfKey(const ElementProgram& comparator, const KeyRule& rule, std::span<const ElementType> types);

}  // namespace krafla::plan
