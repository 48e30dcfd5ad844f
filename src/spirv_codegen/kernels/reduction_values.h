// SPDX-License-Identifier: Apache-2.0
// Running values of reductions in a kernel. A reduction whose combiner is a plain op (or a sum of parts) starts from
// that op's identity and takes the init value at the end, once; any other starts with no value, and a flag says whether
// there is one.
#pragma once

#include <span>

#include "spirv_codegen/kernels/context.h"

namespace krafla::spirv {

// Runs a dimensionless program on parameters of any width.
// `seen`: the bits of its results are seen.
Values RunScalarProgram(Builder& b, Buffers& buffers, const plan::ElementProgram& program,
                        std::span<const Value> params, bool seen = false);

// Where sums are long, elements are accumulated in chains, each from Start(), and the chains are absorbed by a state
// that is wide: its sums in f32 are two values each (WideSum): all highs of a reduction, then all lows.
class ReductionValues {
 public:
  // `wide`: of the states that are not chains.
  ReductionValues(Builder& b, Buffers& buffers, std::span<const plan::Reduction> reductions, bool wide = false);

  bool is_wide() const { return wide_; }

  // The state is a flat list of values, for phis: those of each reduction, then its flag if it has one.
  Values Start(int width) const { return StartOf(width, wide_); }
  Values StartChain(int width) const { return StartOf(width, false); }
  // `inputs`: the values of all reductions in order, without flags. Of a chain, or of a state that is not wide.
  Values Accumulate(const Values& state, const Values& inputs, int width) const;
  // A chain after a state.
  Values Absorb(const Values& state, const Values& chain) const;
  // The values as they stand, each as one; without flags.
  Values Round(const Values& state) const;
  // left before right.
  Values Merge(const Values& left, const Values& right) const;
  // Lanes of vectors into scalars.
  Values Horizontal(const Values& state, int width) const;
  // With the init values: what later stages see. Emit InitValues() where it dominates.
  Values Finish(const Values& state, const Values& init) const;
  Values InitValues() const;
  // Values only, and back: flags become true.
  Values Strip(const Values& state) const;
  Values Restore(const Values& values) const;
  // Kinds of the values, without flags.
  std::vector<Kind> Kinds() const;

  // Merges all lanes of a subgroup of `size`; every lane gets the result.
  Values MergeSubgroup(Values state, uint32_t size) const;

 private:
  bool HasIdentity(const plan::Reduction& r) const;
  bool IsWide(const plan::Reduction& r) const;
  // Values of the reduction in a state, without its flag.
  std::size_t ValueCount(const plan::Reduction& r) const;
  Values StartOf(int width, bool wide) const;
  Values Combine(const plan::Reduction& r, std::span<const Value> left, std::span<const Value> right) const;

  Builder& b_;
  Buffers& buffers_;
  std::span<const plan::Reduction> reductions_;
  bool wide_;
};

}  // namespace krafla::spirv
