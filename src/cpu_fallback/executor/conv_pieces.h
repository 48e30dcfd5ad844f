// SPDX-License-Identifier: Apache-2.0
// A convolution of HLO as ordinary ones: no base dilation, no reversal, no negative padding, no batch groups. Each is
// over views of the same three arrays.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "cpu_fallback/kernels/convolution_problem.h"
#include "plan/kernel_plan.h"

namespace krafla::cpu {

struct ConvPieces {
  // Strides of kernels may be negative: a window that is reversed.
  std::vector<ConvolutionProblem> ordinary;
  // Parts of the result that no element of the input reaches.
  std::vector<TensorView> zeros;
};

// The three arrays as they are, a reversed window as a kernel with negative strides: batch groups and feature groups
// are not taken apart. Nothing where the input is dilated.
std::optional<ConvolutionProblem> WithGroups(const plan::ConvKernel& body, const Dims& result_strides,
                                             int64_t result_offset, ElementType result_type);

// `result_strides` and `result_offset`, in elements: where the result lies. Nothing where there would be more than a
// few thousand pieces.
std::optional<ConvPieces> CutIntoOrdinary(const plan::ConvKernel& body, const Dims& result_strides,
                                          int64_t result_offset, ElementType result_type);

// The same with the longest spatial dimension of the result as the innermost one. Nothing where more than a few
// positions lie along that, or there is so much to do that it is parted along the first dimension, and of other types
// than f32.
std::optional<ConvolutionProblem> WithLongestInnermost(const ConvolutionProblem& problem);

// A depthwise convolution of signals as one of pictures of one row, which oneDNN 3.7.2 alone is fast at; others as they
// are.
ConvolutionProblem DepthwiseAsPictures(const ConvolutionProblem& problem);

// Writes zeros to the view.
void FillWithZeros(const TensorView& view, std::byte* base);

}  // namespace krafla::cpu
