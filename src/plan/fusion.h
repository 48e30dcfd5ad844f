// SPDX-License-Identifier: Apache-2.0
// Which instructions become one kernel. First every value is either kept (it gets a buffer) or inlined into the
// kernels that use it; then kernels are merged around heroes: what follows a reduction over the same rows, what
// follows a dot or a convolution element by element, siblings over one iteration space.
#pragma once

#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/module.h"
#include "krafla/status.h"
#include "plan/effect_facts.h"
#include "plan/program_emitter.h"

namespace krafla::plan {

struct FusionOptions {
  bool fuse = true;  // false: a kernel an instruction (views still cost nothing)
  bool dot_epilogues = true;
  bool reduce_regions = true;
  bool multi_output = true;
  int max_nodes = 400;    // instructions inlined into one kernel
  int max_bindings = 24;  // of kernels that are merged
  // Buffers that the device gives one kernel: what is inlined and what is merged stays within. A single instruction of
  // more is planned all the same, for the back end to refuse.
  int buffer_limit = std::numeric_limits<int>::max();
};

struct FusionGroup {
  enum class Kind : uint8_t {
    kLoop,    // outputs over one iteration space
    kReduce,  // reduce or reduce-window heroes and what follows over the same rows
    kDot,
    kConvolution,
    kDynamicUpdate,  // dynamic-update-slice as a root: writes into its operand's buffer
    kConcatenate,    // a loop an operand, or for several, each writing its part
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
  // Kept values that only this kernel reads: they need no buffer.
  std::unordered_set<const Instruction*> internal;
};

class FusionPlan {
 public:
  // The kernels of `computation` in an order that respects their dependences.
  // `effects`: what is known of the module's computations, to be asked again by the next; may be null.
  static Result<FusionPlan> Make(const Computation& computation, const FusionOptions& options,
                                 EffectFacts* effects = nullptr);

  const std::vector<FusionGroup>& groups() const { return groups_; }
  // Whether `v` (resolved through reshapes) has a buffer: parameters, constants with more than one element, heroes,
  // control flow, kept instructions.
  bool HasBuffer(const ValueRef& v) const;

 private:
  friend class FusionPlanner;
  std::vector<FusionGroup> groups_;
  std::unordered_set<const Instruction*> kept_;
};

// How a dot reads an operand: a buffer value and strides in elements, one an operand dimension. Transposes, slices,
// reverses and reshapes between are folded in.
struct StridedOperand {
  ValueRef base;  // resolved through reshapes
  int64_t offset = 0;
  Dims strides;
};
StridedOperand FoldStrides(const Instruction* operand);

// A rough cost of one evaluation, in additions.
double ElementCost(Opcode opcode, ElementType type);

}  // namespace krafla::plan
