// SPDX-License-Identifier: Apache-2.0
// Groups of which rows need only some of their columns: the scores of causal attention, masked by a comparison of the
// row with the column, their softmax, which makes exact zeros of what is masked, the gradients of both, and the
// products that sum over the columns or, for keys and values, over the rows. None of them needs the other columns, as a
// sum needs no zeros.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "plan/rows/column_bounds.h"

namespace krafla::plan {

// What a member does with arrays that have an element for each row and column.
struct ColumnRole {
  enum class Kind : uint8_t {
    kNone,
    kMakes,      // a product whose columns they are
    kReduces,    // reductions of rows
    kElements,   // a loop, of which `dim` are the columns
    kContracts,  // a product that sums over the columns
    kSums,       // a product that sums over the rows, and whose rows are the columns
  };
  Kind kind = Kind::kNone;
  int dim = 0;
};

// Values that have to be of that size at the most, or finite where it is infinite: the elements of an array, or what a
// product computes its operand to be where it reads it. A program of one result, of HLO type `type`, over the bindings.
struct CheckedValues {
  std::vector<Slice> slices;
  std::vector<Binding> bindings;
  ElementProgram values;
  ElementType type = ElementType::kF32;
  double most = 0;
};

struct GroupColumns {
  ScoreMask mask;
  std::size_t scores = 0, largest = 0;  // members: of the scores, and of the reduction that has a row's largest one
  std::vector<ColumnRole> roles;        // by member
  std::set<int> arrays;                 // allocations
  std::vector<CheckedValues> checked;
};
// `members` over the digits of the rows; `shrunk`: what nobody else needs. Nothing where there are no such columns.
std::optional<GroupColumns> FindGroupColumns(std::span<const RowChain::Member> members,
                                             const std::map<int, RowChain::Value>& values, const std::set<int>& shrunk);

// The members with these columns alone, and rows of so many elements in the arrays between them.
std::vector<RowChain::Member> WithColumns(std::span<const RowChain::Member> members, const GroupColumns& group,
                                          const ColumnRange& columns);

// The members, and one more behind the reduction that has the largest score of a row, which stores for each row whether
// that is such that the bounds hold: to element `row` of `checks`, a pred array of `count`. `group` is then of the
// longer list. A kernel of its own, because another stage in the softmax would have the CPU sum its rows in another
// order.
std::vector<RowChain::Member> WithChecks(std::span<const RowChain::Member> members, GroupColumns& group, int64_t count,
                                         const Slice& checks);

// The elements of an array as values of binding 0.
ElementProgram ElementsOf(const Binding& array);
// Whether all values are as `checked` says, to element `at` of the binding behind its own, of `count` preds.
KernelPlan SizeCheck(const CheckedValues& checked, int64_t at, int64_t count);
// Whether all elements of binding 0, preds, are true, to binding 1.
KernelPlan AllTrue(int64_t count);

}  // namespace krafla::plan
