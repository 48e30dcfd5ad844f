// SPDX-License-Identifier: Apache-2.0
// A ConvKernel measured.
#pragma once

#include <optional>

#include "spirv_codegen/kernels/matrix.h"
#include "spirv_codegen/kernels/variant.h"

namespace krafla::spirv {

struct ConvProblem {
  explicit ConvProblem(const plan::ConvKernel& kernel);

  const plan::ConvKernel& k;
  const ConvolutionAttributes& a;
  int rank;                    // of the arrays
  int spatial;                 // number of spatial dimensions
  int64_t groups;              // feature groups
  int64_t inputs, outputs;     // features of a group
  int64_t window = 1;          // product of the window's sizes
  int64_t pixels = 1;          // output batch and spatial
  int out_minor;               // the last output dimension that is not 1
  bool features_last = false;  // of input and kernel, whatever order the output has
  Dims input_strides, kernel_strides, output_strides;

  int64_t InputExtent(int s) const;
  int64_t OutputExtent(int s) const;
};

// Into how many parts the sums over window and features are split (split_sum.h); 1: not at all.
int64_t SplitOf(const ConvProblem& problem);
// Into how many so that the sums of the parts fill the device.
int64_t FillingSplitOf(const ConvProblem& problem, int64_t least_part, const Target& target);
// `emit` gives the kernels for a plan with parts and the epilogue that stores them, over [parts, output dims...].
Result<EmittedProgram> EmitConvInParts(
    const plan::KernelPlan& plan, const ConvProblem& problem, int64_t parts, const Target& target,
    const std::function<Result<EmittedProgram>(const plan::KernelPlan&, const plan::ElementProgram&)>& emit);

bool ChannelsLast(const ConvProblem& problem);

// As the product of matrices that it is where windows are single elements.
Refusal RefusesPointwiseConv(const ConvProblem& problem);
Result<EmittedProgram> EmitPointwiseConv(const plan::KernelPlan& plan, const ConvProblem& problem,
                                         const Target& target);

// As a product of matrices whose one side is never written down: pixels by window and features.
Refusal RefusesGemm(const ConvProblem& problem, const Target& target);
Result<EmittedProgram> EmitGemmConv(const plan::KernelPlan& plan, const ConvProblem& problem, const Target& target);

// With input and kernel put in another order first, where that pays.
Refusal RefusesReorderedConv(const plan::KernelPlan& plan, const ConvProblem& problem, const Target& target);
Result<EmittedProgram> EmitReorderedConv(const plan::KernelPlan& plan, const ConvProblem& problem,
                                         const Target& target);

// With narrow elements made wide first, and padded.
Refusal RefusesWidenedConv(const plan::KernelPlan& plan, const ConvProblem& problem, const Target& target);
Result<EmittedProgram> EmitWidenedConv(const plan::KernelPlan& plan, const ConvProblem& problem, const Target& target);

// Every convolution; registers only.
Result<EmittedProgram> EmitDirectConv(const plan::KernelPlan& plan, const ConvProblem& problem, const Target& target);

}  // namespace krafla::spirv
