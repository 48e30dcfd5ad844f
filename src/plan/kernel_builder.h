// SPDX-License-Identifier: Apache-2.0
// From a fusion group to the KernelPlan that computes it, and the values that its bindings stand for.
#pragma once

#include <unordered_map>
#include <vector>

#include "krafla/status.h"
#include "plan/built_kernel.h"
#include "plan/fusion/fusion_plan.h"
#include "plan/program_emitter.h"

namespace krafla::plan {

class KernelBuilder {
 public:
  KernelBuilder(const FusionPlan& plan, const FusionGroup& group) : plan_(plan), group_(group) {}

  // kWhile, kConditional and kCall are no kernels. kConcatenate and kRng are several: see below.
  // Errors: UNIMPLEMENTED when the group cannot be one kernel (the planner then does not merge).
  Result<BuiltKernel> Build();
  // An operand of a concatenate, and where it begins in the dimension.
  struct ConcatenatePart {
    std::size_t operand = 0;
    int64_t begin = 0;
  };
  // The kernel that writes operands of equal dimensions into their places.
  Result<BuiltKernel> BuildConcatenateParts(std::span<const ConcatenatePart> parts);
  // The kernels of all operands. Those that lie between each other, element by element, and those that compute
  // something of the same arrays are written by one.
  Result<std::vector<BuiltKernel>> BuildConcatenate();

  // The two kernels of an rng-bit-generator.
  Result<BuiltKernel> BuildRngBits();
  Result<BuiltKernel> BuildRngState();
  // rng-get-and-update-state: leaf 1 of the instruction stands for the state, which outlives a run.
  Result<BuiltKernel> BuildRngCounter();

 private:
  class ReduceRegion;

  Result<BuiltKernel> BuildLoop();
  Result<BuiltKernel> BuildReduce();
  Result<BuiltKernel> BuildReduceWindow();
  Result<BuiltKernel> FinishReduce(ReduceKernel kernel);
  Result<BuiltKernel> BuildDot();
  Result<BuiltKernel> BuildConvolution();
  Result<BuiltKernel> BuildSort();
  Result<BuiltKernel> BuildScan();
  Result<BuiltKernel> BuildScatter();
  Result<BuiltKernel> BuildDynamicUpdate();
  Result<BuiltKernel> BuildFft();
  Result<BuiltKernel> BuildLinalg();
  Result<BuiltKernel> BuildHost();

  // Binds the leaves of the operands, then those of the result. A value that is read twice has two bindings.
  Result<> BindOperandsAndResults();
  // The binding of a value, made on first use. Complex values bind as their real type, twice as long.
  int Bind(const ValueRef& v, bool read, bool write);
  // A 64-bit value bound as 32-bit words.
  int BindWords(const ValueRef& v, bool read, bool write);
  // Emits what is computed of values outside of this kernel, which become loads.
  ProgramEmitter EmitterOf(ProgramBuilder& builder);
  // A load when the value has a buffer that this kernel does not compute itself.
  Result<std::optional<ScalarValue>> Outside(ProgramEmitter& emitter, const ValueRef& v, std::span<const IndexId> index,
                                             NodeId mask);
  bool IsMember(const Instruction* i) const;
  // Every program of a kernel numbers the kernel's bindings.
  void ShareBindings();
  // Ends a kernel that is one loop.
  BuiltKernel FinishLoop(ProgramBuilder&& builder);
  Result<Reduction> MakeReduction(const Computation& computation, std::span<const ValueRef> inits,
                                  std::span<const Shape* const> shapes);
  static Reduction::Kind KindOf(Opcode opcode, ElementType type);
  static ElementType AccumulateType(ElementType result);
  // Instructions without a buffer of their own from which `root` is computed, and itself.
  std::unordered_set<const Instruction*> ReachingRoot(const Instruction* root) const;
  // Emits the roots of a dot or convolution group from the hero's own index, storing what is read outside.
  // `dims` is an iteration space over the hero's elements; read in `order` its dimensions are the hero's row-major
  // order, perhaps with dimensions joined.
  Result<ElementProgram> EmitEpilogue(const Instruction& hero, std::span<const int64_t> dims,
                                      std::span<const int> order);

  const FusionPlan& plan_;
  const FusionGroup& group_;
  BuiltKernel out_;
  std::unordered_map<ValueRef, int, ValueRefHash> binding_of_;
};

}  // namespace krafla::plan
