// SPDX-License-Identifier: Apache-2.0
// A sum over windows that are as long as the distance between the elements of a dilated array (the gradient of an
// average pool whose windows do not overlap) has one element in each: that dimension is the array with each element
// repeated.
#include <algorithm>

#include "passes/lift.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

namespace {

bool MeetsOneElement(const WindowDim& w) {
  return w.base_dilation > 1 && w.size == w.base_dilation && w.stride == 1 && w.window_dilation == 1 && !w.reversal;
}

// The windows over what `x` pads with zeros, as windows over its operand.
Window WithPadding(Window window, const PadAttributes& pad) {
  for (std::size_t d = 0; d < window.size(); ++d) {
    window[d].padding_low += pad.low[d], window[d].padding_high += pad.high[d];
    window[d].base_dilation = pad.interior[d] + 1;
  }
  return window;
}

Result<Instruction*> RepeatElements(Instruction* i) {
  if (!IsStatic(*i) || i->operand_count() != 2 || i->shape().IsTuple()) return nullptr;
  const Literal* init = SplatOf(i->operand(1));
  if (init == nullptr || !IsPositiveZero(*init) || BinaryOpcode(*i->called(0)) != Opcode::kAdd) return nullptr;
  Window window = i->attr<WindowAttributes>().window;
  Instruction* x = i->operand(0);
  if (x->opcode() == Opcode::kPad &&
      std::ranges::all_of(window, [](const WindowDim& w) { return w.base_dilation == 1; })) {
    const Literal* padding = SplatOf(x->operand(1));
    if (padding != nullptr && IsPositiveZero(*padding)) {
      window = WithPadding(window, x->attr<PadAttributes>());
      x = x->operand(0);
    }
  }
  if (std::ranges::none_of(window, MeetsOneElement)) return nullptr;
  if (x->shape().element_count() == 0 || i->shape().element_count() == 0) return nullptr;

  Rewriter rewrite(*i);
  const Dims& dims = x->shape().dims();
  Dims spread, mapping, repeated;
  PadAttributes padding;
  WindowAttributes rest{window};
  bool rest_is_one = true;
  for (std::size_t d = 0; d < window.size(); ++d) {
    mapping.push_back(std::ssize(spread));
    spread.push_back(dims[d]);
    int64_t extent = dims[d], low = 0, high = 0;
    if (MeetsOneElement(window[d])) {
      // Window j begins at element j - padding_low of the dilated array; its one element is the next whose place is a
      // multiple of the dilation.
      const int64_t times = window[d].base_dilation;
      spread.push_back(times);
      extent *= times;
      low = window[d].padding_low - (times - 1);
      high = i->shape().dims()[d] - low - extent;
      rest.window[d] = WindowDim{};
    } else {
      rest_is_one = rest_is_one && window[d] == WindowDim{};
    }
    repeated.push_back(extent);
    padding.low.push_back(low), padding.high.push_back(high), padding.interior.push_back(0);
  }
  Instruction* each = rewrite.Reshape(rewrite.Broadcast(x, spread, mapping), repeated);
  KRAFLA_ASSIGN(Instruction * all, rewrite.Infer(Opcode::kPad, {each, i->operand(1)}, padding));
  if (!rest_is_one) return rewrite.Infer(Opcode::kReduceWindow, {all, i->operand(1)}, rest, {i->called(0)});
  return rewrite.Binary(Opcode::kAdd, rewrite.Broadcast(i->operand(1), i->shape().dims(), {}), all);
}

}  // namespace

Result<bool> DilatedWindowExpander(Module& module, const PassOptions&) {
  return RewriteAll(module, Opcode::kReduceWindow, RepeatElements);
}

}  // namespace krafla
