// SPDX-License-Identifier: Apache-2.0
// Loops as kernels, which do many turns in a launch. A launch does as many turns as its push word says or, of a loop
// whose trip count is not known, fewer where the condition ends it; the predicate that it leaves is false when the loop
// is over. What the loop carries lies in the plan's buffers between launches.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "plan/program_plan.h"
#include "spirv_codegen/builder.h"
#include "spirv_codegen/emit.h"

namespace krafla::spirv {

// Where a loop's kernel notes which block of steps comes next.
inline constexpr uint64_t kLoopStateBytes = 4;

struct EmittedLoop {
  struct Launch {
    EmittedKernel kernel;  // its buffers are numbered as `slices`; its push word is the most turns that it does
    std::array<uint32_t, 3> grid = {1, 1, 1};
    double turn_ms = 0;  // estimated, rather too much
  };
  std::vector<Launch> launches;  // one after the other, each of the same turns
  std::vector<plan::Slice> slices;
  int64_t most_turns = 1;  // the most turns of a launch, so that the device answers in time
  // Where loops of unknown counts lie inside, turns are counted that may be of any of them, and the predicate says
  // whether the outermost is over. A launch goes on where the last one stopped: the kernel has a second push word,
  // which is 1 in the first launch, and kLoopStateBytes behind the slices.
  bool resumes = false;
};

// The time of a launch in nanoseconds, after which the device has to answer.
inline constexpr double kLoopLaunchNs = 30e6;

// The cost of one point of a program, in simple operations.
double OperationsOf(const plan::ElementProgram& program);

// The choice among the branches from `first` on. In XLA an index out of range takes the last branch, and the first of
// two branches is for true.
void EmitBranches(Builder& b, Value index, bool index_is_pred, std::size_t count,
                  const std::function<void(std::size_t)>& branch, std::size_t first = 0);

// The refusal of a loop whose kernel has so many words of code, or more.
Failure TooLong(std::size_t words, const Tuning& tuning);

// UNIMPLEMENTED with the reason where the loop has to be driven by the host.
Result<EmittedLoop> EmitWhile(const plan::ProgramPlan& plan, const plan::WhileStep& loop, const DeviceProfile& profile,
                              const Tuning& tuning);

// A loop whose points never meet (plan/point_loop.h), in as many invocations as there are points. What a point carries
// from turn to turn is a variable of its invocation; it is read before the first turn and written back after the last.
Result<EmittedLoop> EmitPointLoop(const plan::ProgramPlan& plan, const plan::WhileStep& loop,
                                  const DeviceProfile& profile, const Tuning& tuning);

// A loop with little work: one workgroup runs its steps, and those of the loops and branches inside it, with barriers
// where a step reads what another one stored.
Result<EmittedLoop> EmitLoopNest(const plan::ProgramPlan& plan, const plan::WhileStep& loop,
                                 const DeviceProfile& profile, const Tuning& tuning);

}  // namespace krafla::spirv
