// SPDX-License-Identifier: Apache-2.0
// The running values of reductions in a kernel. A reduction whose combiner is a plain operation, or a sum of parts,
// starts from the identity of that operation and combines the initial value at the end, once. Any other starts without
// a value, and a flag says whether there is one.
#pragma once

#include <functional>
#include <span>

#include "spirv_codegen/kernels/context.h"

namespace krafla::spirv {

// The results of a program without dimensions for parameters of any width. `seen`: someone sees the bits of the
// results.
Values RunScalarProgram(Builder& b, Buffers& buffers, const plan::ElementProgram& program,
                        std::span<const Value> params, bool seen = false);

// Long sums are accumulated in chains, each of which begins with StartChain(), and a wide state absorbs the chains. A
// sum of f32 in a wide state is two values (WideSum): first the high values of all sums of a reduction, then the low
// ones.
class ReductionValues {
 public:
  // `wide`: whether states that are not chains are wide; where elements are combined in turn there are no chains.
  ReductionValues(Builder& b, Buffers& buffers, std::span<const plan::Reduction> reductions, bool wide = false);

  bool is_wide() const { return wide_; }
  // Whether elements have to be combined in their order.
  bool in_order() const { return in_order_; }

  // The inputs of all reductions in order: results of `program` at the element that `lowering` stands at.
  Values Inputs(const plan::ElementProgram& program, ProgramLowering& lowering) const;

  // A state is a flat list of values, for loops to carry: the values of each reduction, then its flag if it has one.
  Values Start(int width) const { return StartOf(width, wide_); }
  Values StartChain(int width) const { return StartOf(width, false); }
  // Adds an element to a chain, or to a state that is not wide. `inputs` are the values of all reductions in order,
  // without flags.
  Values Accumulate(const Values& state, const Values& inputs, int width) const;
  // The state with a chain combined after it.
  Values Absorb(const Values& state, const Values& chain) const;
  // The turns from `first` to `end`, `turn` elements each, in chains of kSumChain of them; `together`, which divides
  // their number and kSumChain, in one turn of the loop.
  Values InChains(Value first, Value end, uint32_t turn, int width,
                  const std::function<Values(Value element, const Values& state)>& body, uint32_t together = 1) const;
  // The values so far, wide sums as one value each, without flags.
  Values Round(const Values& state) const;
  // Combines two states, in this order.
  Values Merge(const Values& left, const Values& right) const;
  // Combines the lanes of vectors into scalars.
  Values Horizontal(const Values& state, int width) const;
  // The results, which later stages see: the state combined with `init`, which InitValues() must have emitted where it
  // dominates this.
  Values Finish(const Values& state, const Values& init) const;
  Values InitValues() const;
  // The values without the flags, and back to a state whose flags are true.
  Values Strip(const Values& state) const;
  Values Restore(const Values& values) const;
  // The kinds of the values without the flags.
  std::vector<Kind> Kinds() const;

  // Merges all lanes of a subgroup of `size`; every lane gets the result.
  Values MergeSubgroup(Values state, uint32_t size) const;

 private:
  bool HasIdentity(const plan::Reduction& r) const;
  bool IsWide(const plan::Reduction& r) const;
  // How many values the reduction has in a state, without its flag.
  std::size_t ValueCount(const plan::Reduction& r) const;
  Values StartOf(int width, bool wide) const;
  Values Combine(const plan::Reduction& r, std::span<const Value> left, std::span<const Value> right) const;

  Builder& b_;
  Buffers& buffers_;
  std::span<const plan::Reduction> reductions_;
  bool in_order_, wide_;
};

}  // namespace krafla::spirv
