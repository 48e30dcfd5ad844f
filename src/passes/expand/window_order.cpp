// SPDX-License-Identifier: Apache-2.0
// A reduce-window by a computation for which the order matters (a choice between equals, a difference), or by a sum
// that starts from something else than zero, gives XLA:CPU's answer, which visits the last taps of one dimension after
// all others where padding makes it (ir/window_order.h) and passes over padding: the taps one after the other, each a
// strided slice for all windows. Of a window of many taps only those that come last are, after a reduce-window of the
// rest; a sum of many starts from zero, and its initial value comes to it at the end.
#include "ir/window_order.h"

#include <algorithm>

#include "passes/expand/expansions.h"
#include "passes/lift.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/simplify/scalar_facts.h"

namespace krafla {

bool IsInAnyOrder(const Computation& combiner) {
  const std::optional<Opcode> opcode = BinaryOpcode(combiner);
  return opcode && HasTrait(*opcode, op_trait::kCommutative) && HasTrait(*opcode, op_trait::kAssociative);
}

bool TakesInitialValueOften(const Computation& combiner, const Instruction& init) {
  const Opcode opcode = *BinaryOpcode(combiner);
  if (opcode != Opcode::kAdd && opcode != Opcode::kMultiply && opcode != Opcode::kXor) return true;
  const Literal* value = SplatOf(&init);
  if (value == nullptr) return false;
  if (opcode == Opcode::kMultiply) return IsOne(*value);
  return IsPositiveZero(*value) || IsNegativeZero(*value);
}

namespace {

constexpr int64_t kFewTaps = 64;     // all of a window, written out
constexpr int64_t kMostTaps = 1024;  // those that come last, written out

bool IsPadded(const Window& window) {
  for (const WindowDim& w : window)
    if (w.padding_low > 0 || w.padding_high > 0 || w.base_dilation != 1) return true;
  return false;
}

// From the identity, and the initial value once.
Result<Instruction*> StartOnce(Instruction* i) {
  Instruction* init = i->operand(1);
  std::optional<Literal> identity = IdentityOf(*i->called(0), init->shape().element_type());
  if (!identity) return nullptr;
  Rewriter rewrite(*i);
  KRAFLA_ASSIGN(Instruction * made,
                rewrite.Infer(Opcode::kReduceWindow, {i->operand(0), rewrite.Constant(std::move(*identity))},
                              i->attr<WindowAttributes>(), {i->called(0)}));
  return rewrite.Binary(*BinaryOpcode(*i->called(0)), rewrite.Broadcast(init, i->shape().dims(), {}), made);
}

Result<Instruction*> VisitInOrder(Instruction* i) {
  if (!IsStatic(*i)) return nullptr;
  const Window& window = i->attr<WindowAttributes>().window;
  const bool any_order = IsInAnyOrder(*i->called(0));
  if (any_order) {
    if (!IsPadded(window) || TakesInitialValueOften(*i->called(0), *i->operand(1))) return nullptr;
    int64_t all = 1;
    for (const WindowDim& w : window) all = all > kFewTaps ? all : all * w.size;
    if (all > kFewTaps || std::ranges::any_of(window, &WindowDim::reversal)) return StartOnce(i);
  }
  const std::size_t arrays = i->operand_count() / 2;
  const Shape& x = i->operand(0)->shape();
  const Dims windows = i->shape().IsTuple() ? i->shape().tuple_elements()[0].dims() : i->shape().dims();
  for (const WindowDim& w : window)
    if (w.reversal) return nullptr;
  const std::optional<int64_t> last = DimensionVisitedLast(window, x.dims(), windows);
  if (i->shape().IsTuple() != (arrays > 1)) return nullptr;
  const std::size_t dim = last ? static_cast<std::size_t>(*last) : window.size();
  Dims taps, tap(window.size(), 0);
  int64_t all = 1, late = 1;
  for (std::size_t d = 0; d < window.size(); ++d) {
    taps.push_back(window[d].size);
    if (all <= kMostTaps) all *= taps[d];
    if (late <= kMostTaps && d != dim) late *= taps[d];
  }
  const bool whole = all <= kFewTaps;
  if (whole ? !IsPadded(window) : !last || late > kMostTaps) return nullptr;
  for (int64_t n : windows)
    if (n == 0) return nullptr;
  if (x.element_count() == 0) return nullptr;

  KRAFLA_TRY(i->called(0)->SortTopologically());
  Rewriter rewrite(*i);
  std::vector<Instruction*> so_far, padded;
  if (whole) {
    for (std::size_t n = 0; n < arrays; ++n) so_far.push_back(rewrite.Broadcast(i->operand(arrays + n), windows, {}));
  } else {
    WindowAttributes rest = i->attr<WindowAttributes>();
    --rest.window[dim].size;
    rest.window[dim].padding_high -= rest.window[dim].window_dilation;
    KRAFLA_ASSIGN(Instruction * made, rewrite.Infer(Opcode::kReduceWindow, {i->operands().begin(), i->operands().end()},
                                                    rest, {i->called(0)}));
    for (std::size_t n = 0; n < arrays; ++n)
      so_far.push_back(arrays > 1 ? rewrite.Element(made, static_cast<int64_t>(n)) : made);
  }

  auto with_padding = [&](Instruction* array) {
    return rewrite.Infer(Opcode::kPad, {array, rewrite.Constant(ScalarZero(array->shape().element_type()))},
                         PaddingOf(window));
  };
  for (std::size_t n = 0; n < arrays; ++n) {
    KRAFLA_ASSIGN(Instruction * p, with_padding(i->operand(n)));
    padded.push_back(p);
  }
  KRAFLA_ASSIGN(Instruction * there, with_padding(rewrite.Splat(ScalarOne(ElementType::kPred), x.dims())));
  for (bool comes_last : {false, true}) {
    if (comes_last ? !last : !whole) continue;
    do {
      if (last && (tap[dim] == taps[dim] - 1) != comes_last) continue;
      const SliceAttributes cut = TapSlice(window, tap, windows);
      std::vector<Instruction*> arguments = so_far;
      for (Instruction* p : padded) arguments.push_back(rewrite.Slice(p, cut));
      std::vector<Instruction*> next = LiftResultsInto(rewrite, *i->called(0), arguments, windows);
      if (next.size() != arrays) return nullptr;
      Instruction* inside = rewrite.Slice(there, cut);
      for (std::size_t n = 0; n < arrays; ++n) so_far[n] = rewrite.Select(inside, next[n], so_far[n]);
    } while (NextIndex(tap, taps));
  }
  return arrays > 1 ? rewrite.Tuple(std::move(so_far)) : so_far[0];
}

}  // namespace

Result<bool> WindowOrder(Module& module, const PassOptions&) {
  return RewriteAll(module, Opcode::kReduceWindow, VisitInOrder);
}

}  // namespace krafla
