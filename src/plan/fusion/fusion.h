// SPDX-License-Identifier: Apache-2.0
// Which instructions become one kernel. First every value is either kept (it gets a buffer) or inlined into the
// kernels that use it; then kernels are merged around heroes: what follows a reduction over the same rows, what
// follows a dot or a convolution element by element, siblings over one iteration space.
#pragma once

#include <limits>

#include "krafla/status.h"
#include "plan/effect_facts.h"
#include "plan/fusion/fusion_plan.h"

namespace krafla::plan {

// How far fusion goes. None of these numbers changes a result.
struct FusionLimits {
  // Instructions inlined into one kernel: drivers take time and registers that grow faster than a kernel does.
  int inlined = 400;
  // Evaluations of inlined instructions in one kernel's program: `evaluations` in any, and on average
  // `evaluations_each` per instruction. A chain that doubles at each step would otherwise double the program each time.
  int64_t evaluations = 128;
  int64_t evaluations_each = 4;
  // Counts of evaluations stop here, far above both limits and far below where they would overflow.
  int64_t copies = int64_t{1} << 20;
  // Places from which one value is reached, before it is kept whatever it costs: each is looked at for each new one.
  std::size_t places = 12;
  // Elements of an array of which a kernel computes offsets: they are 32-bit, also in pairs of numbers.
  int64_t elements = int64_t{1} << 30;
  // A concatenate of more operands than `select_pieces`, or of as many elements as `pieces_elements`, is written
  // operand by operand: a choice per element among all of them costs more than another launch.
  std::size_t select_pieces = 4;
  int64_t pieces_elements = 4096;
  // Instructions that are looked at to see whether an update is made of the array that it updates; beyond, it is taken
  // to be, which costs a kernel and never a wrong result.
  std::size_t update_search = 64;
  // Buffers of a kernel that is merged: every Vulkan device with buffer device addresses takes as many.
  int bindings = 24;
  // Reductions of a region, and reductions and roots together: each keeps its value alive to the last stage.
  std::size_t reductions = 8;
  std::size_t members = 24;
  // Merges that are built and refused for one reduction, before the rest of its readers are left alone: each costs as
  // much as building the kernel.
  int refusals = 16;
  // Loops over equal dimensions become one if they stand at most so many groups apart: what lies between is compared.
  std::size_t sibling_distance = 24;
  // Results of such a loop: each holds registers to the end of the point.
  std::size_t sibling_roots = 6;
  // Above as many elements a launch costs little beside the work, so that only loops that share reads are merged.
  int64_t sibling_elements = 65536;
};

struct FusionOptions {
  bool fuse = true;  // false: a kernel per instruction (views still cost nothing)
  bool dot_epilogues = true;
  bool reduce_regions = true;
  bool multi_output = true;
  FusionLimits limits;
  // Buffers that the device gives one kernel: what is inlined and what is merged stays within. A single instruction of
  // more is planned all the same, for the back end to refuse.
  int buffer_limit = std::numeric_limits<int>::max();
};

// The kernels of `computation`.
// `effects`: what is known of the module's computations, to be asked again by the next; may be null.
Result<FusionPlan> PlanFusion(const Computation& computation, const FusionOptions& options,
                              EffectFacts* effects = nullptr);

}  // namespace krafla::plan
