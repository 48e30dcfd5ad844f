// SPDX-License-Identifier: Apache-2.0
// Operations that can be done block by block: how their operands have to be cut, and what comes
// out.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "passes/spmd/spmd_emitter.h"

namespace krafla::spmd {

// What is wanted of a result.
struct Wishes {
  std::vector<Split> parts;   // a sum over the devices along these is left to who needs it
  std::vector<Split> cut;     // how all that reads an array cuts it; empty where nobody says it, or not all alike
  std::vector<int64_t> open;  // dimensions that who reads it takes as they come
};

// `operands`: arrays of one region. Nothing where the operation has no rule, or no operand is cut:
// then it is done on whole arrays. The results have one sharding each.
Result<std::optional<Value>> DoByBlocks(const Instruction& instruction, std::span<const Value> operands,
                                        const Region* region, const Wishes& wishes, Emitter& emitter);

// The rules by families of operations; the same as DoByBlocks, of operations that are theirs.
using BlockRule = Result<std::optional<Value>>(const Instruction& instruction, std::span<const Value> operands,
                                               const Region* region, const Wishes& wishes, Emitter& emitter);
BlockRule DotInBlocks;
BlockRule GatherInBlocks;
BlockRule ScatterInBlocks;
BlockRule ReduceInBlocks;
// Over dimensions that are cut, and not read or written whole; nothing where there is none.
BlockRule DynamicSliceInBlocks;

// Slices and pads along several dimensions, and scatters of one window at a known place; nothing where rows that move
// are many, or none of the array's dimensions is cut.
BlockRule BoxInBlocks;

// A convolution or a reduce-window over a dimension that is cut, where all blocks read equally far past their ends;
// nothing where it is none.
BlockRule WindowsInBlocks;

// How the values around an instruction have come out; null where there is none.
using ValueOf = std::function<const Value*(const Instruction*)>;
// A slice, pad or concatenation, also of each other, along a dimension that is cut, where devices need few rows of
// others. Nothing where they need more, or it is none.
Result<std::optional<Value>> MoveRows(const Instruction& instruction, const ValueOf& value_of, const Region* region,
                                      Emitter& emitter);

// Blocks of any number of rows: device by device `local` has the next ones. Rows [first, first + count) of these are to
// be rows `at` and so on of an array of `sizes`, cut by `dims`, of which blocks have `block` rows.
struct RowBlocks {
  Instruction* local;
  std::size_t dim;
  int64_t first, at, count, block;
  Dims sizes;
  std::vector<Split> dims;
};
// The array's blocks, with anything in other rows; nothing where that takes more than to move the cut.
Result<std::optional<Instruction*>> Rebalance(const Instruction& instruction, const RowBlocks& rows,
                                              const Region* region, Emitter& emitter);

}  // namespace krafla::spmd
