// SPDX-License-Identifier: Apache-2.0
// Taps of a window that meet padding alone, whichever window it is, give nothing: the ends of a window that reaches
// beyond a small array, as those of a dilated convolution over a small picture. The window without them, and of a
// convolution's kernel the slice of the others.
#include <algorithm>

#include "base/checked_math.h"
#include "base/index.h"
#include "passes/expand/expansions.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {

namespace {

// Takes the taps at both ends off that meet none of `extent` elements in any of `windows` windows. What was taken off
// the beginning; nothing where the window stays as it is.
std::optional<int64_t> Trim(WindowDim& w, int64_t extent, int64_t windows) {
  if (extent == 0 || windows == 0) return std::nullopt;
  // Tap j of window o lies at o * stride + j * dilation - padding_low of the dilated array.
  const int64_t elements = (extent - 1) * w.base_dilation + 1;
  const int64_t low = w.padding_low - (windows - 1) * w.stride;
  const int64_t first = std::max<int64_t>(0, CeilDiv(low, w.window_dilation));
  const int64_t last = std::min<int64_t>(w.size - 1, -CeilDiv(-(elements - 1 + w.padding_low), w.window_dilation));
  if (first > last || (first == 0 && last == w.size - 1)) return std::nullopt;
  w.padding_low -= first * w.window_dilation;
  w.padding_high -= (w.size - 1 - last) * w.window_dilation;
  w.size = last - first + 1;
  return first;
}

Result<Instruction*> TrimReduceWindow(Instruction* i) {
  if (!IsStatic(*i) || i->operand_count() != 2 || i->shape().IsTuple()) return nullptr;
  if (!IsInAnyOrder(*i->called(0)) || !TakesInitialValueOften(*i->called(0), *i->operand(1))) return nullptr;
  WindowAttributes a = i->attr<WindowAttributes>();
  bool trims = false;
  for (std::size_t d = 0; d < a.window.size(); ++d) {
    if (a.window[d].reversal) return nullptr;
    trims |= Trim(a.window[d], i->operand(0)->shape().dims()[d], i->shape().dims()[d]).has_value();
  }
  if (!trims) return nullptr;
  return Rewriter(*i).Infer(Opcode::kReduceWindow, {i->operand(0), i->operand(1)}, a, {i->called(0)});
}

Result<Instruction*> TrimConvolution(Instruction* i) {
  if (!IsStatic(*i)) return nullptr;
  ConvolutionAttributes a = i->attr<ConvolutionAttributes>();
  Instruction* kernel = i->operand(1);
  SliceAttributes taps{Dims(At(kernel->shape().rank()), 0), kernel->shape().dims(),
                       Dims(At(kernel->shape().rank()), 1)};
  bool trims = false;
  for (std::size_t d = 0; d < a.window.size(); ++d) {
    WindowDim& w = a.window[d];
    const int64_t size = w.size;
    const std::optional<int64_t> first =
        Trim(w, i->operand(0)->shape().dim(a.input_spatial[d]), i->shape().dim(a.output_spatial[d]));
    if (!first) continue;
    trims = true;
    const int64_t begin = w.reversal ? size - *first - w.size : *first;
    taps.starts[At(a.kernel_spatial[d])] = begin;
    taps.limits[At(a.kernel_spatial[d])] = begin + w.size;
  }
  if (!trims) return nullptr;
  Rewriter rewrite(*i);
  return rewrite.Add(Opcode::kConvolution, i->shape(), {i->operand(0), rewrite.Slice(kernel, taps)}, a);
}

}  // namespace

Result<bool> WindowTrimmer(Module& module, const PassOptions&) {
  KRAFLA_ASSIGN(bool of_windows, RewriteAll(module, Opcode::kReduceWindow, TrimReduceWindow));
  KRAFLA_ASSIGN(bool of_convolutions, RewriteAll(module, Opcode::kConvolution, TrimConvolution));
  return of_windows || of_convolutions;
}

}  // namespace krafla
