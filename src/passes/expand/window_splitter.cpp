// SPDX-License-Identifier: Apache-2.0
// A reduce-window over several dimensions as one along each of them, where elements may come in any order and more than
// once: 14 elements in the place of the 49 of a window of 7 x 7, which morphology has over bytes.
#include <optional>

#include "base/checked_math.h"
#include "passes/expand/expansions.h"
#include "passes/lift.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {

namespace {

// How many elements the array between two windows costs for each of its own: it is stored, and loaded again.
constexpr double kArrayBetween = 2;
// So much less has to be combined: 3 x 3 x 3 just is.
constexpr double kLeastGain = 1.9;
// Of a device that folds them in one kernel: 5 x 5 and 3 x 3 x 3 are twice as fast apart, 3 x 3 are as fast, and those
// further apart than one element lose (docs/results/2026-11-30-shared-work.md).
constexpr int64_t kLeastFoldedTaps = 25;

// The window's dimensions but `d`, or `d` alone.
Window WithoutDimension(Window window, std::size_t d) {
  window[d] = WindowDim{};
  return window;
}
Window OnlyDimension(const Window& window, std::size_t d) {
  Window out(window.size());
  out[d] = window[d];
  return out;
}

struct WindowCosts {
  double whole = 0, split = 0;
};
// The elements that are combined: of the window, and where dimension `d` of it goes first.
WindowCosts CostsOf(const Instruction& i, std::size_t d) {
  const Window& window = i.attr<WindowAttributes>().window;
  double results = 1, between = 1, taps = 1;
  for (std::size_t n = 0; n < window.size(); ++n) {
    const auto after = static_cast<double>(i.shape().dims()[n]);
    results *= after;
    between *= n == d ? after : static_cast<double>(i.operand(0)->shape().dims()[n]);
    taps *= static_cast<double>(window[n].size);
  }
  const auto own = static_cast<double>(window[d].size);
  return {results * taps, between * (own + kArrayBetween) + results * taps / own};
}

bool GainsWhereFolded(const Window& window) {
  Dims sizes;
  for (const WindowDim& d : window) {
    if (d.stride != 1) return false;
    sizes.push_back(d.size);
  }
  return SaturatingProduct(sizes.span()) >= kLeastFoldedTaps;
}

Result<Instruction*> SplitWindow(Instruction* i) {
  if (!IsStatic(*i) || i->operand_count() != 2 || i->shape().IsTuple()) return nullptr;
  const Computation& combiner = *i->called(0);
  if (!IsInAnyOrder(combiner) || !TakesInitialValueOften(combiner, *i->operand(1))) return nullptr;
  // Sums of floats have the bits of one order.
  if (IsOneOf(*BinaryOpcode(combiner), {Opcode::kAdd, Opcode::kMultiply}) && !IsIntegral(i->shape().element_type()))
    return nullptr;
  const Window& window = i->attr<WindowAttributes>().window;
  int dimensions = 0;
  std::optional<std::size_t> best;
  double least = 0;
  for (std::size_t d = 0; d < window.size(); ++d) {
    if (window[d].reversal || window[d].base_dilation != 1) return nullptr;
    if (window[d].size == 1) continue;
    ++dimensions;
    const WindowCosts costs = CostsOf(*i, d);
    if (kLeastGain * costs.split > costs.whole || (best && costs.split >= least)) continue;
    best = d, least = costs.split;
  }
  if (dimensions < 2 || !best) return nullptr;
  Rewriter rewrite(*i);
  KRAFLA_ASSIGN(Instruction * first, rewrite.Infer(Opcode::kReduceWindow, {i->operand(0), i->operand(1)},
                                                   WindowAttributes{OnlyDimension(window, *best)}, {i->called(0)}));
  KRAFLA_ASSIGN(Instruction * rest, rewrite.Infer(Opcode::kReduceWindow, {first, i->operand(1)},
                                                  WindowAttributes{WithoutDimension(window, *best)}, {i->called(0)}));
  // Of more than two dimensions those that are left may be split again.
  KRAFLA_ASSIGN(Instruction * again, SplitWindow(rest));
  return again != nullptr ? again : rest;
}

}  // namespace

Result<bool> WindowSplitter(Module& module, const PassOptions& options) {
  return RewriteAll(module, Opcode::kReduceWindow, [&](Instruction* i) -> Result<Instruction*> {
    if (options.folds_windows && !GainsWhereFolded(i->attr<WindowAttributes>().window)) return nullptr;
    return SplitWindow(i);
  });
}

}  // namespace krafla
