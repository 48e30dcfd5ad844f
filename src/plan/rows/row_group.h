// SPDX-License-Identifier: Apache-2.0
// A chain of launches as a row group: into which blocks its rows fall, and the kernels of one block.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "plan/planner.h"
#include "plan/rows/row_chain.h"

namespace krafla::plan {

// The rows of a block: all digits (RowChain::Digits) behind `digit`, and `part` indices of that one. What is left of it
// where `part` does not divide its extent is a group of its own, with smaller blocks.
struct RowBlocks {
  std::size_t digit = 0;
  int64_t part = 1;
  int64_t rows = 1;
};

// `row_bytes`: what a row of the arrays takes that lie in the memory of a block.
RowBlocks ChooseBlocks(const RowChain& chain, int64_t row_bytes, const RowGroupOptions& options);
// Whether products whose right operand lies in no cache have rows enough for it in such a block.
bool IsSharedEnough(const RowChain& chain, const RowBlocks& blocks, const RowGroupOptions& options);

// The kernels of the blocks [begin, begin + extent) of the digit, each of `part` indices of it.
struct BlockKernels {
  Dims grid;
  int64_t first_row = 0;             // of the first block
  std::vector<BlockKernel> kernels;  // by member
};
std::optional<BlockKernels> TakeBlocks(const RowChain& chain, std::size_t digit, int64_t begin, int64_t extent,
                                       int64_t part);

}  // namespace krafla::plan
