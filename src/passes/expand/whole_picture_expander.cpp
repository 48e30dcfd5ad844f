// SPDX-License-Identifier: Apache-2.0
// A convolution whose one window is all of the picture, as the last one of a network has it: a product, which contracts
// what lies within the window.
#include "base/index.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {

namespace {

Result<Instruction*> ToDot(Instruction* i) {
  if (!IsStatic(*i)) return nullptr;
  const ConvolutionAttributes& a = i->attr<ConvolutionAttributes>();
  if (a.feature_group_count != 1 || a.batch_group_count != 1) return nullptr;
  Instruction *picture = i->operand(0), *kernel = i->operand(1);
  DotAttributes dot;
  dot.precision = a.precision;
  for (std::size_t d = 0; d < a.window.size(); ++d) {
    const WindowDim& w = a.window[d];
    const int64_t n = picture->shape().dim(a.input_spatial[d]);
    if (n != w.size || w.padding_low != 0 || w.padding_high != 0 || i->shape().dim(a.output_spatial[d]) != 1)
      return nullptr;
    if (n != 1 && (w.window_dilation != 1 || w.base_dilation != 1 || w.reversal)) return nullptr;
    dot.lhs_contracting.push_back(a.input_spatial[d]);
    dot.rhs_contracting.push_back(a.kernel_spatial[d]);
  }
  dot.lhs_contracting.push_back(a.input_feature);
  dot.rhs_contracting.push_back(a.kernel_input_feature);
  Rewriter rewrite(*i);
  const Dims rows_first{picture->shape().dim(a.input_batch), kernel->shape().dim(a.kernel_output_feature)};
  Instruction* product =
      rewrite.Add(Opcode::kDot, ArrayShape(i->shape().element_type(), rows_first), {picture, kernel}, std::move(dot));
  if (a.output_batch > a.output_feature) product = rewrite.Transpose(product, Dims{1, 0});
  return rewrite.Reshape(product, i->shape().dims());
}

}  // namespace

Result<bool> WholePictureExpander(Module& module, const PassOptions&) {
  return RewriteAll(module, Opcode::kConvolution, ToDot);
}

}  // namespace krafla
