// SPDX-License-Identifier: Apache-2.0
// scaled-dot: each operand times its scales, a scale a block, then a dot (XLA: scaled_dot_rewriter.cc). Products of
// the narrow formats and powers of two are exact in f32.
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {

namespace {

// Each element of `scale` repeated until it covers `dims`, which are multiples of its own.
Instruction* Repeat(Rewriter& rewrite, Instruction* scale, const Dims& dims) {
  if (scale->shape().rank() == 0) return rewrite.Broadcast(scale, dims, {});
  Dims blocks, mapping;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    int64_t size = scale->shape().dims()[d];
    mapping.push_back(blocks.ssize());
    blocks.push_back(size);
    if (size != dims[d]) blocks.push_back(dims[d] / size);
  }
  return rewrite.Reshape(rewrite.Broadcast(scale, blocks, mapping), dims);
}

Result<Instruction*> ExpandScaledDot(Instruction* i) {
  if (!IsStatic(*i)) return nullptr;
  Rewriter rewrite(*i);
  ElementType wide = ElementType::kF32;
  for (const Instruction* operand : i->operands())
    if (operand->shape().element_type() == ElementType::kF64) wide = ElementType::kF64;
  std::vector<Instruction*> sides;
  for (std::size_t n = 0; n < 2; ++n) {
    Instruction *x = i->operand(n), *scale = i->operand(n + 2);
    if (scale->shape().element_count() == 0 && x->shape().element_count() != 0) return nullptr;
    Instruction* scales = x->shape().element_count() == 0
                              ? rewrite.Convert(x, wide)
                              : Repeat(rewrite, rewrite.Convert(scale, wide), x->shape().dims());
    sides.push_back(rewrite.Binary(Opcode::kMultiply, rewrite.Convert(x, wide), scales));
  }
  DotAttributes attributes = i->attr<DotAttributes>();
  // One precision an operand was given; the dot has two.
  if (attributes.precision.size() > 2) attributes.precision.resize(2);
  Instruction* dot = rewrite.Add(Opcode::kDot, i->shape().WithElementType(wide), std::move(sides), attributes);
  return rewrite.Convert(dot, i->shape().element_type());
}

}  // namespace

Result<bool> ScaledDotExpander(Module& module, const PassOptions&) {
  return RewriteAll(module, Opcode::kScaledDot, ExpandScaledDot);
}

}  // namespace krafla
