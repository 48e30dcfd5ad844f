// SPDX-License-Identifier: Apache-2.0
// The passes and their order. A pass takes a verified module to a verified module that computes the same: the same
// bits, except where a pass's comment says that it re-associates a sum whose row in ops.def promises a bound only.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "ir/module.h"
#include "krafla/status.h"

namespace krafla {

// Called by the partitioner for each custom call "InspectSharding" with that call's backend_config and how its operand
// lies over the partitions, as HLO text. An error ends the pass.
using ShardingObserver = std::function<Result<>(std::string_view backend_config, std::string_view sharding)>;

class CustomPartitioner;

struct PassOptions {
  // Passes left out, by name.
  std::set<std::string> disabled;

  // Constant folding gives up on an instruction that would take more scalar operations than this, and stops for good
  // after the module's budget.
  int64_t fold_work_limit = int64_t{1} << 20;
  int64_t fold_module_work_limit = int64_t{1} << 23;
  // A folded constant may have this many bytes, or as many as the constants it replaces.
  int64_t fold_byte_limit = int64_t{1} << 20;
  // Copies of called computations may add this many instructions, and four times as many as the module has. What goes
  // beyond stays a computation that is compiled once and called: a nest of calls would double at each level.
  int64_t inline_growth = 20'000;
  // Inlining stops with RESOURCE_EXHAUSTED rather than make a module larger than this.
  int64_t max_instructions = 5'000'000;
  // A product whose operand would be put together from blocks of at least so many bytes is one for each block, which
  // are sent while others are worked on; 0: none is.
  int64_t least_bytes_by_turns = 0;
  // Windows over several dimensions are folded in one kernel, and gain from a kernel each only where they are large.
  bool folds_windows = false;
  // Where there is none, nobody is told.
  ShardingObserver inspect_sharding;
  // Who cuts custom calls of others (passes/custom_partitioner.h); null: nobody does. It outlives the passes.
  const CustomPartitioner* custom_partitioner = nullptr;
};

struct PassInfo {
  std::string_view name;  // also the name of its source file
  std::string_view doc;
  // Whether anything changed.
  Result<bool> (*run)(Module& module, const PassOptions& options);
};

// Sorted by name.
std::span<const PassInfo> AllPasses();
// NOT_FOUND with the names there are.
Result<const PassInfo*> FindPass(std::string_view name);

// Called after each pass that ran, with what it took.
using PassObserver = std::function<Result<>(const PassInfo& pass, Module& module, bool changed, double milliseconds)>;

// Before the first pass and after each, computations that the entry does not reach are removed.
Result<> RunPipeline(Module& module, const PassOptions& options = {}, const PassObserver& observer = {});
// Named passes, in the order given.
Result<> RunPasses(Module& module, std::span<const std::string> names, const PassOptions& options = {},
                   const PassObserver& observer = {});

}  // namespace krafla
