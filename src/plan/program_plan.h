// SPDX-License-Identifier: Apache-2.0
// ProgramPlan: a module as ordered steps over slices of buffers. Each step lists what it reads and writes, so that
// barriers follow from the plan and are never written by hand. The CPU and Vulkan run the same plan.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/guards.h"
#include "ir/module.h"
#include "plan/kernel_plan.h"

namespace krafla::plan {

// Where bytes live. Arguments and results are the flattened leaves of the entry's parameters and result.
struct Allocation {
  // kDeviceId: a u32 that differs from device to device though the program does not. kBlock: of a row group, in the
  // memory of one block; whoever runs a block has one of its own.
  enum class Kind : uint8_t { kArgument, kResult, kConstant, kState, kArena, kDeviceId, kBlock } kind = Kind::kArena;
  // kArgument, kResult: which leaf; kConstant: which literal of ProgramPlan::constants; kState: which of
  // ProgramPlan::states; kDeviceId: 0 for the replica, 1 for the partition.
  int number = 0;
  int64_t offset = 0;  // kArena: in the arena; kBlock: in the memory of a block
  int64_t size = 0;    // bytes
};

struct Slice {
  int allocation = 0;
  int64_t offset = 0, size = 0;  // bytes within the allocation
  friend bool operator==(const Slice&, const Slice&) = default;
};

struct StepList;

struct LaunchStep {
  int kernel = 0;                            // into ProgramPlan::kernels
  std::vector<Slice> bindings;               // one for each binding of the kernel
  const Instruction* instruction = nullptr;  // the fusion's root, for reports
  int instruction_count = 0;                 // instructions that this launch is the first to compute
  // Of a collective: it may go on while the steps up to the AwaitStep of this number run, which is in the same list.
  // -1: none is, and the launch ends where it stands.
  int exchange = -1;
};
// What the launch of that number writes is there from here on, and what it reads may be overwritten.
struct AwaitStep {
  int exchange = 0;
  const Instruction* instruction = nullptr;  // of the launch
};
struct CopyStep {
  Slice from, to;
};
// The control flow of a list of steps, whatever its other steps are: executors have lists of their own, and
// plan/step_runner.h runs them all.
template <typename List>
struct While {
  std::unique_ptr<List> condition, body;
  Slice predicate;                    // a pred that `condition` writes
  std::optional<int64_t> trip_count;  // known: the condition need not run
};
template <typename List>
struct Conditional {
  Slice index;  // pred or s32
  bool index_is_pred = false;
  std::vector<std::unique_ptr<List>> branches;  // pred: true, false
};
struct Call {
  int callee = 0;  // into ProgramPlan::callees
};

// One of the kernels of a row group, over the rows of one block.
struct BlockLaunch : LaunchStep {
  // For each binding, and each dimension of the grid: how many bytes further it lies in the next block.
  std::vector<Dims> strides;
};
// Kernels that follow one another row by row: what one of them reads of another one's result lies in the rows that it
// computes itself. So they run block of rows by block of rows, all kernels of a block before those of the next, and
// what lies between them needs the memory of a block (Allocation::Kind::kBlock) instead of that of the whole. Blocks
// that differ in more than the last `in_order` dimensions of the grid do not depend on one another: they may run in any
// order, and several at once. The others run in the order of the grid, whose last dimension goes fastest: they add to
// the same sums (rows/row_sums.h).
struct RowGroupStep {
  static constexpr std::size_t kMostDims = 16;
  Dims grid;  // of blocks; at most kMostDims
  int in_order = 0;
  std::vector<BlockLaunch> launches;  // of one block, in their order
  // Where the kernels find the block's place in the grid, an s32 for each dimension; of no bytes: none asks.
  Slice place;
};

struct WhileStep : While<StepList> {
  const Instruction* instruction = nullptr;
};
struct ConditionalStep : Conditional<StepList> {
  const Instruction* instruction = nullptr;
};
struct CallStep : Call {
  const Instruction* instruction = nullptr;
};
using Step = std::variant<LaunchStep, AwaitStep, CopyStep, RowGroupStep, WhileStep, ConditionalStep, CallStep>;
struct StepList {
  std::vector<Step> steps;
};

struct ProgramPlan {
  std::unique_ptr<const Module> module;  // after the passes; instructions in steps point into it
  std::vector<KernelPlan> kernels;       // distinct problems
  std::vector<Allocation> allocations;
  std::vector<const Literal*> constants;  // owned by the module
  // The states that outlive a run, such as the counters of random generators, by their first bytes.
  std::vector<std::vector<std::byte>> states;
  int64_t arena_size = 0;
  std::vector<GuardedRange> guarded;  // with PlanOptions::guards: all that the arena holds between its guards
  int64_t peak_live_bytes = 0;        // lower bound: the largest live set
  int64_t block_bytes = 0;            // the memory of a block of any row group
  StepList steps;
  std::vector<StepList> callees;          // of computations that several call; each calls only those before it
  std::vector<Shape> arguments, results;  // leaves
  // For each result leaf the argument leaf whose buffer it shares, or -1.
  std::vector<int> result_aliases;
  int exchanges = 0;              // of which an AwaitStep waits for the end: their numbers are below this
  int64_t instruction_count = 0;  // of the optimised module, those that compute something
};

}  // namespace krafla::plan
