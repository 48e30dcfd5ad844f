// SPDX-License-Identifier: Apache-2.0
// Decides which instructions become one kernel. First every value is either kept, so that it gets a buffer, or inlined
// into the kernels that use it. Then kernels are merged around heroes: what follows a reduction over the same rows,
// what follows a dot or a convolution element by element, and loops over one iteration space.
#pragma once

#include <limits>

#include "krafla/status.h"
#include "plan/effect_facts.h"
#include "plan/fusion/fusion_plan.h"
#include "plan/overlap.h"

namespace krafla::plan {

struct PlanLog;

// How far fusion goes. None of these numbers changes a result.
struct FusionLimits {
  // Instructions inlined into one kernel: drivers take time and registers that grow faster than a kernel does.
  int inlined = 400;
  // The same of a kernel that is merged from several.
  int merged = 800;
  // What the evaluations of formulas (ElementCost) in one kernel add up to: LLVM takes 2 s for a chain of 100 tanh and
  // 16 for one of 300, 3.5 and 32 for powers, where a launch for every 40 to 80 of them costs next to nothing.
  double formulas = 1600;
  // Evaluations of inlined instructions in one kernel's program: `evaluations` in any, and on average
  // `evaluations_each` per instruction. A chain that doubles at each step would otherwise double the program each time.
  int64_t evaluations = 128;
  int64_t evaluations_each = 4;
  // Where counts of evaluations saturate: far above both limits and far below where they would overflow.
  int64_t copies = int64_t{1} << 20;
  // How many places may reach one value before it is kept whatever it costs: each new place is compared with all
  // others.
  std::size_t places = 12;
  // Elements of an array that a kernel indexes: offsets have 32 bits, also those of the parts of complex numbers.
  int64_t elements = int64_t{1} << 30;
  // A concatenate of more than `select_pieces` operands, or of at least `pieces_elements` elements, is written operand
  // by operand: to choose among all operands at each element costs more than another launch.
  std::size_t select_pieces = 4;
  int64_t pieces_elements = 4096;
  // How many instructions are searched to see whether an update is computed from the array that it updates. Beyond them
  // it counts as computed from it, which costs a kernel and never gives a wrong result.
  std::size_t update_search = 64;
  // Buffers of a merged kernel: every Vulkan device with buffer device addresses takes as many.
  int bindings = 24;
  // Reductions of a region, and its reductions and roots together. Each keeps its value alive to the last stage.
  std::size_t reductions = 8;
  std::size_t members = 24;
  // Merges that may be built and refused for one reduction before no more of its readers are tried: each costs as much
  // as building the kernel.
  int refusals = 16;
  // What a number may cost (ElementCost) that several kernels of one element compute for themselves: more than that is
  // more than a launch's share of a loop's turn, and what it reads could not be updated before the last of them.
  double repeated_cost = 4;
  // How many windows have a value, above which it is stored (FusionOptions::stores_window_values).
  double windows_of_value = 4;
  // How many groups apart loops over equal dimensions may stand to become one: each group between is compared.
  std::size_t sibling_distance = 24;
  // Results of such a loop: each holds registers to the end of the point.
  std::size_t sibling_roots = 6;
  // Above this many elements a launch costs little beside the work, so that only loops which share reads are merged.
  int64_t sibling_elements = 65536;
  // A dot's operand of fewer elements is stored whatever it is computed from: it stays in a cache.
  int64_t operand_elements = 4096;
  // Nor is one of which a matrix of the batch has fewer: what is begun anew for each matrix would be most of the work.
  int64_t operand_matrix = 1024;
  // What an element of an operand that is computed where it is read may cost (ElementCost).
  double operand_cost = 24;
  // How many instructions it may be made of.
  std::size_t operand_search = 48;
};

struct FusionOptions {
  bool fuse = true;  // false: a kernel per instruction (views still cost nothing)
  bool dot_epilogues = true;
  bool reduce_regions = true;
  bool multi_output = true;
  // Whether the back end's dots take operands that are computed where they are read (DotKernel).
  bool computed_operands = false;
  // Whether a pad is stored for what reads it at places that are computed: rows of memory are copied then, where
  // otherwise it is decided for each element whether the pad has it.
  bool stores_gathered_pads = false;
  // Whether windows of values that lie in memory are folded several times as fast as those of values that are computed
  // once for each window that has them.
  bool stores_window_values = false;
  // How many arrays of single elements one kernel puts side by side.
  std::size_t side_by_side = 4;
  FusionLimits limits;
  // By which kernels are put around collectives that go on meanwhile.
  OverlapOptions overlap;
  // Buffers that the device gives to one kernel. Inlining and merging stay within them. A single instruction that needs
  // more is planned all the same, and the back end refuses it.
  int buffer_limit = std::numeric_limits<int>::max();
  // Where reasons are written down (plan/plan_log.h); null: nowhere. Changes no decision.
  PlanLog* log = nullptr;
};

// The kernels of `computation`. `effects` may be null; otherwise it remembers what is found of the module's
// computations, for the calls for other computations.
Result<FusionPlan> PlanFusion(const Computation& computation, const FusionOptions& options,
                              EffectFacts* effects = nullptr);

}  // namespace krafla::plan
