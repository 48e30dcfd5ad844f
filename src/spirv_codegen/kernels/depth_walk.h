// SPDX-License-Identifier: Apache-2.0
// How a loop goes along the depth of a product: through the segments of the depth, each in steps of as many elements.
// What changes from step to step is the same in all invocations and is added up, so that no index is divided.
#pragma once

#include <array>
#include <vector>

#include "spirv_codegen/kernels/matrix.h"

namespace krafla::spirv {

class DepthWalk {
 public:
  // How far from each other an operand's elements lie, in bytes modulo 2^32.
  struct Strides {
    uint32_t step = 0;   // of the depth; 0: nobody asks
    Dims segments = {};  // of each coordinate of a segment; none: all segments are at one place
  };
  DepthWalk(Builder& b, const TileProblem& problem, int64_t step, std::array<Strides, 2> operands);

  int64_t steps() const { return p_.segments * steps_; }
  struct Place {
    Value segment, k, bytes[2];  // bytes: from the first step, in each operand
  };
  // The values that a loop carries, of the first step and of the one behind another.
  Values Start() const;
  Values Next(const Values& state) const;
  // Step `step` of a depth without segments.
  Values Step(int64_t step) const;
  // As many turns of a loop as there are steps from `first` to `end`, each of which gives the state behind it.
  void Turns(const Values& state, int64_t first, int64_t end, const std::function<Values(const Values&)>& turn) const;
  Place At(const Values& state) const { return {state[0], state[1], {state[2], state[3]}}; }

 private:
  Value U(int64_t v) const { return b_.U32(static_cast<uint32_t>(v)); }
  // Up to so many segments a number of bits says which of them end a row of the window; more have coordinates.
  static constexpr int64_t kBits = 32;
  Value GoesOn(const Values& state, std::size_t dim) const;
  Value Distance(const Strides& operand, Value same_segment, const Values& goes_on) const;

  Builder& b_;
  const TileProblem& p_;
  int64_t step_, steps_;  // elements of a step; steps of a segment
  std::array<Strides, 2> operands_;
  std::vector<std::size_t> dims_;  // of segments, the innermost first, without those of one
};

}  // namespace krafla::spirv
