// SPDX-License-Identifier: Apache-2.0
// Products that sum over the rows of a chain, as the gradients of keys and values do: each block adds its rows to sums
// that lie in memory for the whole of the group.
//
// As a member of a chain such a product has its contracted dimension as the last one of its batch, so that it falls
// into digits and blocks as any other member does. It stores the sum of what is there and what it multiplies to one
// more binding, an array of [batch..., m, n]. In a block the contracted rows become its depth again.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "plan/rows/row_group.h"

namespace krafla::plan {

// The member; nothing for what is no product, or has other sums than of f32, or computes an operand.
std::optional<KernelPlan> SumOverRows(const KernelPlan& kernel);

// Blocks run in order where they add to the same sums, and side by side otherwise. So there may be several arrays of
// sums, one for each place in the first `apart` digits of the rows, as far as these are contracted.
struct RowSumParts {
  Dims digits;            // of the rows: the block's digit may have become two
  RowBlocks blocks;       // in these digits
  std::size_t apart = 0;  // of the digits
};
// Parts that are enough for many threads. They depend on nothing but the problem, as the order of the sums does.
RowSumParts ChooseParts(const RowChain& chain, const RowBlocks& blocks, int64_t saved);

// Members over those digits; sums lie apart.
struct RowSumMembers {
  std::vector<RowChainMember> members;
  std::vector<int64_t> parts;  // by member: how many arrays of sums it has; 0: it is no sum
  // What the sums may take of the bytes that the group saves.
  static constexpr int64_t kShareOfSaved = 4;
  // Of all sums, one member's behind the other's, as slices lie.
  int64_t bytes() const;
};
RowSumMembers PartSums(std::span<const RowChainMember> members, const RowSumParts& parts);

// How a group falls into blocks.
struct GroupBlocks {
  RowSumParts parts;
  RowSumMembers sums;
  std::map<int, Slice> places;  // of the arrays in a block's memory, by allocation; -1: of its place in the grid
};

// The kernel of a block with its rows as the depth; false: they do not lie evenly.
bool AddRowsTogether(KernelPlan& block);

// Zeros in all sums.
KernelPlan ZeroSums(int64_t elements);

// What the product does with its sums, `parts` arrays one behind the other. `bindings`: which of `whole` it has; -1: of
// the sums.
KernelPlan FinishSums(const KernelPlan& whole, int64_t parts, std::vector<int>& bindings);

}  // namespace krafla::plan
