// SPDX-License-Identifier: Apache-2.0
// Attention over the columns alone that a mask leaves a workgroup's rows (plan::ColumnLimits).
#pragma once

#include <functional>

#include "spirv_codegen/kernels/attention.h"

namespace krafla::spirv {

// Whether the values of the product are finite, to the words of the buffer behind the bindings, each 1 or 0, which a
// kernel before writes: an invocation a word where shaders run on the host's cores; else a workgroup of `local`.
inline constexpr uint32_t kFiniteFlags = 64;
Result<EmittedDispatch> EmitFiniteFlags(KernelWriter& w, const plan::AttentionKernel& kernel, uint32_t local,
                                        bool by_workgroups);

// Whether the word is 1, and not 0, in all `local` invocations of the workgroup, a power of two of them. `subgroup`:
// the size of subgroup that the kernel counts on, 0 for none.
Value AllOfWorkgroup(Builder& b, Value mine, uint32_t local, uint32_t subgroup);

// Columns [begin, end); a value that is empty says nothing.
struct ColumnRange {
  Value begin, end;
};
// What the limits leave a row of a batch. It may lie outside of the columns.
ColumnRange LimitsOfRow(KernelWriter& w, const plan::AttentionKernel& kernel, Value batch, Value row);
// The columns of both.
ColumnRange BothOf(Builder& b, const ColumnRange& x, const ColumnRange& y);

// How a workgroup goes through columns.
struct ColumnWalk {
  int64_t step = 1;      // turns begin at multiples of so many
  int64_t whole = 0;     // columns that turns take
  std::size_t rows = 1;  // of an invocation
  // What each invocation has, joined over all of them in every one.
  std::function<Value(Value mine, const std::function<Value(Value, Value)>& join)> joined;
  // Reduces the rows over the columns from one on to another one: the results of all reductions, row after row.
  std::function<Values(const ColumnRange& columns)> reduce;
};
struct WalkedColumns {
  ColumnRange columns;
  Values known;  // results of the reductions
};
// Reduces over the columns that the limits leave the workgroup, `mine` those of this invocation's rows; over all of
// them, unless `all_finite`, or if it then turns out that a row's largest score is as low as what is masked.
WalkedColumns ReduceWithinLimits(KernelWriter& w, const plan::AttentionKernel& kernel, const ColumnWalk& walk,
                                 const ColumnRange& mine, Value all_finite);

}  // namespace krafla::spirv
