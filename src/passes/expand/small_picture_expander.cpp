// SPDX-License-Identifier: Apache-2.0
// A convolution in which the window is larger than the picture (the gradient of one over a whole picture) pads the
// picture to the window's size and more, and most of its products are with zeros. The sum is the same with the two in
// each other's place: the kernel is the picture, of as many images as it had output features, and the picture is its
// window, with as many output features as there were images.
//
// Along one dimension, of a picture x of n elements and a window w of k taps: output y is the sum over p of
// x[p] w[p + low - y], which is that over q of w'[y + q - (n - k + low)] x[n - 1 - q], w'[m] = w[k - 1 - m].
#include "base/index.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {

namespace {

Result<Instruction*> SwapPictureAndKernel(Instruction* i) {
  if (!IsStatic(*i)) return nullptr;
  const ConvolutionAttributes& a = i->attr<ConvolutionAttributes>();
  if (a.feature_group_count != 1 || a.batch_group_count != 1) return nullptr;
  Instruction *picture = i->operand(0), *kernel = i->operand(1);
  if (picture->shape().element_count() == 0 || kernel->shape().element_count() == 0) return nullptr;
  if (picture->shape().element_type() != kernel->shape().element_type() || i->shape().element_count() == 0)
    return nullptr;
  ConvolutionAttributes swapped = a;
  Dims reversed;
  bool is_smaller = false;
  for (std::size_t d = 0; d < a.window.size(); ++d) {
    const WindowDim& w = a.window[d];
    const int64_t n = picture->shape().dim(a.input_spatial[d]), outputs = i->shape().dim(a.output_spatial[d]);
    if (w.stride != 1 || w.base_dilation != 1 || w.window_dilation != 1 || n > w.size) return nullptr;
    is_smaller |= n < w.size && outputs > 1;
    if (!w.reversal) reversed.push_back(a.kernel_spatial[d]);
    const int64_t low = n - w.size + w.padding_low;
    swapped.window[d] = {.size = n,
                         .stride = 1,
                         .padding_low = low,
                         .padding_high = outputs + n - 1 - w.size - low,
                         .window_dilation = 1,
                         .base_dilation = 1,
                         .reversal = true};
  }
  if (!is_smaller) return nullptr;
  Rewriter rewrite(*i);
  if (!reversed.empty())
    kernel = rewrite.Add(Opcode::kReverse, kernel->shape(), {kernel}, DimensionsAttributes{std::move(reversed)});
  swapped.input_batch = a.kernel_output_feature, swapped.input_feature = a.kernel_input_feature;
  swapped.input_spatial = a.kernel_spatial;
  swapped.kernel_output_feature = a.input_batch, swapped.kernel_input_feature = a.input_feature;
  swapped.kernel_spatial = a.input_spatial;
  swapped.output_batch = a.output_feature, swapped.output_feature = a.output_batch;
  if (a.precision.size() == 2) std::swap(swapped.precision[0], swapped.precision[1]);
  return rewrite.Add(Opcode::kConvolution, i->shape(), {kernel, picture}, swapped);
}

}  // namespace

Result<bool> SmallPictureExpander(Module& module, const PassOptions&) {
  return RewriteAll(module, Opcode::kConvolution, SwapPictureAndKernel);
}

}  // namespace krafla
