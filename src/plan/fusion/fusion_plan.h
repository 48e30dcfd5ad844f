// SPDX-License-Identifier: Apache-2.0
// The outcome of fusion as data: which instructions become one kernel.
#pragma once

#include <optional>
#include <unordered_set>
#include <vector>

#include "plan/built_kernel.h"

namespace krafla::plan {

struct FusionGroup {
  enum class Kind : uint8_t {
    kLoop,    // outputs over one iteration space
    kReduce,  // reduce or reduce-window heroes and what follows over the same rows
    kDot,
    kConvolution,
    kDynamicUpdate,  // dynamic-update-slice as a root: writes into its operand's buffer
    kConcatenate,    // a loop per operand, or for several, each writing its part
    kRng,            // rng-bit-generator: a loop for the bits, one for the state
    kSort,
    kScan,
    kScatter,
    kFft,
    kLinalg,
    kWhile,
    kConditional,
    kCall,  // of a computation that several call: planned once, its steps run by each
    kHost,  // one instruction, run by the evaluator
  } kind = Kind::kLoop;
  std::vector<const Instruction*> heroes;  // in topological order; of kLoop: none
  std::vector<const Instruction*> roots;   // kept fusible instructions that this kernel computes, in order
  // Kept values that no other kernel reads, so that they need no buffer.
  std::unordered_set<const Instruction*> internal;
  // The group's kernel, if it was built to find out whether its members can be one kernel; otherwise it is still to be
  // built.
  std::optional<BuiltKernel> kernel;
  // The dynamic-update-slice, perhaps behind a dot, or the scatter that writes into its operand's buffer; null: there
  // is none.
  const Instruction* update() const;
};

// The kernels of a computation, in an order in which each comes after those that it reads.
struct FusionPlan {
  std::vector<FusionGroup> groups;
  std::unordered_set<const Instruction*> kept;
  std::size_t side_by_side = 4;  // FusionOptions::side_by_side

  // Whether `v` (resolved through reshapes) has a buffer: parameters, constants with more than one element, heroes,
  // control flow, kept instructions.
  bool HasBuffer(const ValueRef& v) const;
};

}  // namespace krafla::plan
