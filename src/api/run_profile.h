// SPDX-License-Identifier: Apache-2.0
// What the time of a run goes into, step by step of the program.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "plan/program_plan.h"

namespace krafla {

// A launch of a kernel, a copy, or a loop that the device runs as a whole. A launch of several dispatches has a step
// for each.
struct ProfiledStep {
  std::string kernel;               // "fused_add.12"; "copy"; "while.3"
  std::string family;               // "dot", "loop", "reduce", ..; "copy", "while"
  std::string instruction, opcode;  // the last HLO instruction that it computes; empty: none
  std::string op_name, source;      // where that comes from, as the module's metadata says: "jit(f)/dot", "f.py:12"
  std::string place;                // "vulkan:0", "cpu"
  std::string variant, reason;      // of the code generator's tables, and why no earlier one; empty on the CPU
  std::array<uint32_t, 3> grid = {}, local_size = {};  // workgroups, invocations; zeros on the CPU
  double flops = 0, bytes = 0;                         // of one time, as the plan counts them: no cache is known to it
  int64_t times = 0;                                   // in a run; the turns of loops count
  double ms = 0;                                       // in a run, of all times
};

// Told of a step of a run when it has ended: when it began, and what it took.
using StepObserver =
    std::function<void(const ProfiledStep& step, std::chrono::steady_clock::time_point begin, double ms)>;

struct RunProfile {
  int runs = 0;                     // that were profiled, and as many that were not
  double run_ms = 0;                // the median of those that were not: nothing is measured inside of them
  std::vector<ProfiledStep> steps;  // in the order of the program; `ms` is the median over the profiled runs
  // The median of those: what is in none of the steps is the host between them.
  double profiled_ms = 0;
};

// Calls run() and measured(steps), which adds to the times and milliseconds of `steps`, `runs` times each after one of
// run() that does not count, and takes the medians. INVALID_ARGUMENT for fewer runs
// than 1.
Result<RunProfile> ProfileRuns(int runs, std::vector<ProfiledStep> steps, const std::function<Result<>()>& run,
                               const std::function<Result<>(std::span<ProfiledStep>)>& measured);

// The parts that the plan knows: names, counts, origin.
ProfiledStep DescribeStep(const plan::ProgramPlan& plan, const plan::LaunchStep& launch);
ProfiledStep DescribeStep(const plan::AwaitStep& await);
ProfiledStep DescribeStep(const plan::CopyStep& copy);
// Of the copies of arguments whose place a result takes (input_output_alias) and that stay as they are.
ProfiledStep DescribeAliasedCopies(const plan::ProgramPlan& plan);
ProfiledStep DescribeStep(const plan::WhileStep& loop);
// All blocks together, by the name of the last kernel.
ProfiledStep DescribeStep(const plan::ProgramPlan& plan, const plan::RowGroupStep& group);

}  // namespace krafla
