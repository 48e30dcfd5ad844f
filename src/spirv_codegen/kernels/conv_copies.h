// SPDX-License-Identifier: Apache-2.0
// Arrays of a convolution that are copied before it, into scratch.
#pragma once

#include <string>
#include <vector>

#include "spirv_codegen/kernels/conv.h"

namespace krafla::spirv {

class ConvCopies {
 public:
  explicit ConvCopies(const plan::KernelPlan& plan) : with_(plan) {}

  // The plan with the copies as bindings behind its own.
  const plan::KernelPlan& plan() const { return with_; }
  // A binding for `count` elements.
  int AddArray(ElementType type, int64_t count);
  void Add(plan::LoopKernel copy) { copies_.push_back(std::move(copy)); }
  // The copies, by kernels that are called `variant`, before `sums`, which were emitted for plan().
  Result<EmittedProgram> Before(EmittedProgram sums, const ConvProblem& p, std::string_view variant,
                                const Target& target) const;

 private:
  plan::KernelPlan with_;
  std::vector<plan::LoopKernel> copies_;
  std::vector<int64_t> scratch_bytes_;
};

double ProductsOf(const ConvProblem& p);
// Elements of input and kernel.
double ElementsOf(const plan::KernelPlan& plan, const ConvProblem& p);

}  // namespace krafla::spirv
