// SPDX-License-Identifier: Apache-2.0
// Dimensions side by side along which a window is one element are one dimension to it: long rows instead of many short
// ones, as of the channels and the last axis of an array that is pooled along the first.
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {

namespace {

Result<Instruction*> MergeDimensions(Instruction* i) {
  if (!IsStatic(*i) || i->operand_count() != 2 || i->shape().IsTuple()) return nullptr;
  const Window& window = i->attr<WindowAttributes>().window;
  const Dims& dims = i->operand(0)->shape().dims();
  Dims merged;
  WindowAttributes a;
  bool was_plain = false;
  for (std::size_t d = 0; d < window.size(); ++d) {
    const bool is_plain = window[d] == WindowDim{};
    if (is_plain && was_plain) {
      merged.back() *= dims[d];
      continue;
    }
    merged.push_back(dims[d]);
    a.window.push_back(window[d]);
    was_plain = is_plain;
  }
  if (merged.size() == dims.size()) return nullptr;
  Rewriter rewrite(*i);
  KRAFLA_ASSIGN(Instruction * made,
                rewrite.Infer(Opcode::kReduceWindow, {rewrite.Reshape(i->operand(0), merged), i->operand(1)},
                              std::move(a), {i->called(0)}));
  return rewrite.Reshape(made, i->shape().dims());
}

}  // namespace

Result<bool> WindowMerger(Module& module, const PassOptions&) {
  return RewriteAll(module, Opcode::kReduceWindow, MergeDimensions);
}

}  // namespace krafla
