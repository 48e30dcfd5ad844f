// SPDX-License-Identifier: Apache-2.0
// A chain of launches as a row group: into which blocks its rows fall, and the kernels of one block.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "plan/planner.h"
#include "plan/rows/row_chain.h"

namespace krafla::plan {

// A chain with the launches that stood between its own.
struct RowGroup {
  RowChain chain;
  std::vector<std::size_t> before, behind;  // steps, rising: that run before it and behind it
  std::set<int> needed_behind;              // allocations that the latter touch
  std::size_t last = 0;                     // the last member's step
  std::set<int> shrunk;                     // arrays that shrink to a block
  int64_t row_bytes = 0, saved = 0;
  std::vector<int64_t> bounds;        // as in LoggedRowGroup
  const Instruction* next = nullptr;  // as in LoggedRowGroup
  Ungrouped why_not_next = Ungrouped::kGrouped;
};

// A member whose dimensions are the digits of the rows, and dimensions that are no part of rows.
struct DigitMember {
  KernelPlan kernel;
  std::vector<int> digits;  // by free dimension; -1: of no rows
};
DigitMember IntoDigits(const RowChain::Member& member, const Dims& digits);

// The rows of a block: all digits (RowChain::Digits) behind `digit`, and `part` indices of that one. What is left of it
// where `part` does not divide its extent is a group of its own, with smaller blocks.
struct RowBlocks {
  std::size_t digit = 0;
  int64_t part = 1;
  int64_t rows = 1;
};

// `row_bytes`: what a row of the arrays takes that lie in the memory of a block.
RowBlocks ChooseBlocks(const RowChain& chain, int64_t row_bytes, const RowGroupOptions& options);
// Whether products whose right operand lies in no cache have rows enough for it in such a block, or read less of it
// than the block saves of memory traffic.
bool IsSharedEnough(const RowChain& chain, const RowBlocks& blocks, int64_t row_bytes, const RowGroupOptions& options);

// The kernels of the blocks [begin, begin + extent) of the digit, each of `part` indices of it.
struct BlockKernels {
  Dims grid;
  int64_t first_row = 0;             // of the first block
  std::vector<BlockKernel> kernels;  // by member
};
std::optional<BlockKernels> TakeBlocks(std::span<const RowChain::Member> members, const Dims& digits, std::size_t digit,
                                       int64_t begin, int64_t extent, int64_t part);

// The free dimension of a member that is the digit, once its dimensions are digits (`kernel`); -1: it has none.
struct DigitDim {
  KernelPlan kernel;
  int dim = -1;
};
DigitDim DimOfDigit(const RowChain::Member& member, const Dims& digits, std::size_t digit);

}  // namespace krafla::plan
