// SPDX-License-Identifier: Apache-2.0
// Rows of which only the first columns count: the scores of causal attention, masked by a comparison of the row with
// the column, and their softmax, which makes exact zeros of what is masked. The two products and the softmax of such
// rows need the other columns as little as a sum needs zeros.
#pragma once

#include <optional>
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

// A product whose epilogue masks, the reductions of its rows, and the product that sums over their columns.
struct ColumnBounds {
  std::size_t scores = 0, softmax = 0, product = 0;  // members
  int scores_array = 0, parts_array = 0;             // allocations: between the first two, and between the last two
  int64_t columns = 0;
  double low = 0;    // what stands for a score that is masked
  double least = 0;  // a row whose largest score is above this, or NaN, has zeros wherever it is masked
};
// Nothing where the chain has no such members, or one of their arrays is needed elsewhere: `shrunk` are those that are
// not.
std::optional<ColumnBounds> FindColumnBounds(std::span<const RowChain::Member> members, const std::set<int>& shrunk);

// The same of the three members from `at` on. `added`: masks that are added as well, of which `low` and `least` do not
// count what they are added to (column_limits.h).
std::optional<ColumnBounds> ColumnBoundsAt(std::span<const RowChain::Member> members, const std::set<int>& shrunk,
                                           std::size_t at, bool added = false);

// Whether all scores of the columns from `first` on are masked in the part [begin, begin + extent) of free dimension
// `dim` of the scores' kernel.
bool IsMaskedFrom(const KernelPlan& scores, const ColumnBounds& bounds, int dim, int64_t begin, int64_t extent,
                  int64_t first);

// The members with the first `columns` columns alone, and rows of so many elements in the arrays between them.
std::vector<RowChain::Member> WithColumns(std::span<const RowChain::Member> members, const ColumnBounds& bounds,
                                          int64_t columns);

// The members, and one more behind the softmax, which stores for each row whether its largest score is such that the
// bounds hold: to element `row` of `checks`, a pred array. `bounds` are then those of the longer list. A kernel of its
// own, because another stage in the softmax would have the CPU sum its rows in another order.
std::vector<RowChain::Member> WithChecks(std::span<const RowChain::Member> members, ColumnBounds& bounds, int64_t rows,
                                         const Slice& checks);

// Whether all elements of binding 0 are finite, to element `at` of binding 1, of `count` preds.
KernelPlan FiniteCheck(const Binding& values, int64_t at, int64_t count);
// Whether all elements of binding 0, preds, are true, to binding 1.
KernelPlan AllTrue(int64_t count);

}  // namespace krafla::plan
