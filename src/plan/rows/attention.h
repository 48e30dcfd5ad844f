// SPDX-License-Identifier: Apache-2.0
// Attention as one kernel (AttentionKernel), made of three members of a chain of row-wise launches: a product, the
// reductions of its rows, and the product that sums over what these make of them.
#pragma once

#include <expected>
#include <set>
#include <vector>

#include "plan/plan_log.h"
#include "plan/rows/row_group.h"

namespace krafla::plan {

struct FusedAttention {
  KernelPlan kernel;
  std::vector<Slice> bindings;
  std::set<int> arrays;  // allocations that are no more
};
// The members `first`, `first` + 1 and `first` + 2 of the chain: a product, reductions and a product, or they are none.
// `shrunk`: the arrays that only members touch. `added_masks`: RowGroupOptions::limits_added_masks.
std::expected<FusedAttention, NotOneKernel> FuseAttention(const RowChain& chain, const std::set<int>& shrunk,
                                                          std::size_t first, bool added_masks);

}  // namespace krafla::plan
