// SPDX-License-Identifier: Apache-2.0
// Scores of which a mask hides columns, as that of causal attention does by a comparison of the row with the column.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <vector>

#include "plan/rows/row_chain.h"

namespace krafla::plan {

// The arrays of `shrunk` that lie between two members and that no other one touches.
std::vector<int> ArraysBetween(std::span<const RowChain::Member> members, const std::set<int>& shrunk, std::size_t from,
                               std::size_t to);
// The only one; nothing where there are several.
std::optional<int> OnlyBetween(std::span<const RowChain::Member> members, const std::set<int>& shrunk, std::size_t from,
                               std::size_t to);

struct ScoreMask {
  int64_t columns = 0;
  double low = 0;    // what stands for a score that is masked
  double least = 0;  // a row whose largest score is above this has zeros in its softmax wherever it is masked
};
// Of a product with an epilogue that chooses. `added`: masks that are added as well, of which `low` and `least` do not
// count what they are added to (column_limits.h).
std::optional<ScoreMask> MaskOfScores(const KernelPlan& scores, bool added = false);

// Of attention, the three members from `at` on: a product whose epilogue masks, the reductions of its rows, which make
// exact zeros of what is masked, and the product that sums over their columns. Nothing where they are no such members,
// or one of their arrays is needed elsewhere: `shrunk` are those that are not.
std::optional<ScoreMask> AttentionMask(std::span<const RowChain::Member> members, const std::set<int>& shrunk,
                                       std::size_t at, bool added);

// Columns side by side.
struct ColumnRange {
  int64_t first = 0, count = 0;
  int64_t end() const { return first + count; }
  friend bool operator==(const ColumnRange&, const ColumnRange&) = default;
};
// Whether all scores of these columns are masked in the part [begin, begin + extent) of free dimension `dim` of the
// scores' kernel.
bool IsMasked(const KernelPlan& scores, const ScoreMask& mask, int dim, int64_t begin, int64_t extent,
              const ColumnRange& columns);

}  // namespace krafla::plan
