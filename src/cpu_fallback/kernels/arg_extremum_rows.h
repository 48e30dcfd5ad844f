// SPDX-License-Identifier: Apache-2.0
// Rows of pairs (value, index) reduced to the largest or smallest value and the least of the indices that have it.
#pragma once

#include <cstdint>

#include "ir/attributes.h"
#include "krafla/element_type.h"

namespace krafla::cpu {

// Combines n pairs with the one that is there. False, and nothing is written: there is a NaN among the values, whose
// index depends on the order, or the extremum is zero and there are zeros of both signs.
using ArgExtremumRows = bool (*)(const void* values, const void* indices, int64_t n, void* value, void* index);
// Combines `rows` rows of pairs with the row that is there, each column by itself: the first NaN wins.
using ArgExtremumColumns = void (*)(const void* values, const void* indices, int64_t rows, int64_t columns, void* value,
                                    void* index);
struct ArgExtremumLoops {
  ArgExtremumRows rows[2] = {};  // of smallest values, of largest ones
  ArgExtremumColumns columns[2] = {};
};
// Of compute types; null: there is no loop for them.
ArgExtremumRows FindArgExtremumRows(bool is_largest, ElementType value, ElementType index);
ArgExtremumColumns FindArgExtremumColumns(bool is_largest, ElementType value, ElementType index);

// Of the pair that is there and the next one, the one of the smaller index stays where that index is not negative and
// its value compares so with the other one's; else the other one is taken. Of compute types; null: there is no loop.
ArgExtremumColumns FindSelectedPairs(ComparisonDirection direction, ElementType value, ElementType index);

}  // namespace krafla::cpu
