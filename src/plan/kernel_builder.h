// SPDX-License-Identifier: Apache-2.0
// From a fusion group to the KernelPlan that computes it, and the values that its bindings stand for.
#pragma once

#include <unordered_map>
#include <vector>

#include "krafla/status.h"
#include "plan/built_kernel.h"
#include "plan/fusion/fusion_plan.h"
#include "plan/program_emitter.h"
#include "plan/strided_operand.h"

namespace krafla::plan {

class KernelBuilder {
 public:
  KernelBuilder(const FusionPlan& plan, const FusionGroup& group) : plan_(plan), group_(group) {}

  // The group's kernel. Groups of kinds kWhile, kConditional and kCall have none; those of kConcatenate and kRng have
  // several, which the functions below build. UNIMPLEMENTED where the group cannot be one kernel: the planner then does
  // not merge it.
  Result<BuiltKernel> Build();
  // An operand of a concatenate, and where it begins along the concatenated dimension.
  struct ConcatenatePart {
    std::size_t operand = 0;
    int64_t begin = 0;
  };
  // The kernel that writes operands of equal dimensions into their places.
  Result<BuiltKernel> BuildConcatenateParts(std::span<const ConcatenatePart> parts);
  // The kernels of all operands. Operands whose elements alternate in memory share a kernel, and so do operands that
  // are computed from the same arrays.
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
  Result<int> BindOrEmit(const StridedOperand& operand, const Dims& extents, const Dims& strides,
                         ElementProgram& program);
  Result<BuiltKernel> BuildConvolution();
  Result<BuiltKernel> BuildSort();
  Result<BuiltKernel> BuildScan();
  Result<BuiltKernel> BuildScatter();
  Result<BuiltKernel> BuildDynamicUpdate();
  Result<BuiltKernel> BuildFft();
  Result<BuiltKernel> BuildLinalg();
  Result<BuiltKernel> BuildHost();

  // Binds the array leaves of the operands, then those of the result. A value that is two operands gets two bindings.
  Result<> BindOperandsAndResults();
  // The binding of a value, which is made on first use. A complex array is bound as its real type, with twice as many
  // elements.
  int Bind(const ValueRef& v, bool read, bool write);
  // A 64-bit value bound as 32-bit words.
  int BindWords(const ValueRef& v, bool read, bool write);
  // An emitter for one program of this kernel, in which values from outside of the kernel become loads.
  ProgramEmitter EmitterOf(ProgramBuilder& builder);
  // A load of `v`, where it has a buffer that this kernel does not write; nothing where the kernel computes it.
  Result<std::optional<ScalarValue>> Outside(ProgramEmitter& emitter, const ValueRef& v, std::span<const IndexId> index,
                                             NodeId mask);
  bool IsMember(const Instruction* i) const;
  // Makes every program of the kernel number its buffers as the kernel numbers its bindings.
  void ShareBindings();
  // Ends a kernel that is one loop.
  BuiltKernel FinishLoop(ProgramBuilder&& builder);
  Result<Reduction> MakeReduction(const Computation& computation, std::span<const ValueRef> inits,
                                  std::span<const Shape* const> shapes);
  // Of a step of two parameters; kOther of anything else.
  static Reduction::Kind KindOf(const Instruction& step, ElementType type);
  static ElementType AccumulateType(ElementType result);
  // `root` and the instructions without a buffer of their own from which it is computed.
  std::unordered_set<const Instruction*> ReachingRoot(const Instruction* root) const;
  Result<std::vector<IndexId>> IndexBehind(const Instruction& hero, const Instruction& last, IndexSpace& space,
                                           std::span<const IndexId> index) const;
  // The epilogue of a dot or convolution group: computes the roots at the hero's own index and stores those that are
  // read outside. `dims` is an iteration space over the hero's elements; in the order `order` its dimensions are those
  // of the hero in row-major order, some of them perhaps joined. The sums are of type `accumulate`.
  Result<ElementProgram> EmitEpilogue(const Instruction& hero, ElementType accumulate, std::span<const int64_t> dims,
                                      std::span<const int> order);

  const FusionPlan& plan_;
  const FusionGroup& group_;
  BuiltKernel out_;
  std::unordered_map<ValueRef, int, ValueRefHash> binding_of_;
};

}  // namespace krafla::plan
