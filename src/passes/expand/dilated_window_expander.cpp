// SPDX-License-Identifier: Apache-2.0
// A sum over windows that are as long as the distance between the elements of a dilated array (the gradient of an
// average pool whose windows do not overlap) has one element in each: that dimension is the array with each element
// repeated. Of windows that lie at multiples of the dilation from each other the same taps meet elements: these alone
// are kept, for each such set of windows. Where few taps are not worth several kernels, or a combiner is not passed by,
// windows go over the array with its elements laid apart, the initial value between them, which is what an element that
// is not there counts as. No index of an element is divided.
#include <algorithm>
#include <numeric>
#include <optional>

#include "base/checked_math.h"
#include "passes/expand/expansions.h"
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

// Every `every`-th window along a dimension, from window `first` on, where they begin at multiples of the dilation from
// each other: all of them meet elements with the same taps. These taps alone, over the array as it is; nothing where no
// tap meets any.
std::optional<WindowDim> TapsThatMeet(const WindowDim& w, int64_t first, int64_t every, int64_t windows,
                                      int64_t extent) {
  const int64_t b = w.base_dilation, step = b / std::gcd(w.window_dilation, b);
  // Tap t lies at this place of the dilated array.
  const auto place = [&](int64_t tap) { return first * w.stride + tap * w.window_dilation - w.padding_low; };
  int64_t tap = 0;
  while (tap < std::min(w.size, step) && place(tap) % b != 0) ++tap;
  if (tap >= std::min(w.size, step)) return std::nullopt;
  WindowDim out;
  out.size = CeilDiv(w.size - tap, step);
  out.window_dilation = out.size == 1 ? 1 : step * w.window_dilation / b;
  out.stride = windows == 1 ? 1 : every * w.stride / b;
  out.padding_low = -place(tap) / b;
  out.padding_high = (windows - 1) * out.stride + (out.size - 1) * out.window_dilation + 1 - out.padding_low - extent;
  return out;
}

constexpr int64_t kMostParts = 64;
constexpr int64_t kManyTaps = 8192;                  // of all windows, for which several kernels are no matter
constexpr int64_t kMostTimes = 64;                   // as large as the array itself
constexpr int64_t kMostElements = int64_t{1} << 26;  // beyond, memory costs more than divisions

// A window over a dilated array in terms of windows over arrays as they are.
class DilatedWindow {
 public:
  DilatedWindow(Instruction* i, Rewriter& rewrite) : i_(i), x_(i->operand(0)), rewrite_(rewrite) {}

  Result<Instruction*> Expand() {
    Window window = i_->attr<WindowAttributes>().window;
    // Passing an element by that is not there is the same as combining it (window_order sees to that).
    if (!IsInAnyOrder(*i_->called(0)) || !TakesInitialValueOften(*i_->called(0), *i_->operand(1)) ||
        std::ranges::any_of(window, &WindowDim::reversal))
      return LayApart(std::move(window));
    const Dims& dims = i_->shape().dims();
    int64_t parts = 1, taps = i_->shape().element_count();
    for (std::size_t d = 0; d < window.size(); ++d) {
      taps = taps > kManyTaps ? taps : taps * window[d].size;
      const int64_t own = PartsOf(window[d], dims[d]);
      parts = parts > kMostParts ? parts : parts * own;
      if (own > 1 || window[d].base_dilation == 1) continue;
      const std::optional<WindowDim> met = TapsThatMeet(window[d], 0, 1, dims[d], x_->shape().dims()[d]);
      if (!met) return rewrite_.Broadcast(i_->operand(1), dims, {});
      window[d] = *met;
    }
    if (parts > 1 && (parts > kMostParts || taps < kManyTaps)) return LayApart(std::move(window));
    return InParts(std::move(window), 0);
  }

 private:
  // The windows whose dimensions from `dim` on are still over a dilated array.
  Result<Instruction*> InParts(Window window, std::size_t dim) {
    while (dim < window.size() && window[dim].base_dilation == 1) ++dim;
    if (dim == window.size()) return Over(x_, std::move(window));
    const WindowDim w = window[dim];
    const int64_t extent = x_->shape().dims()[dim];
    KRAFLA_ASSIGN(const Dims all, DimsOf(window));
    const int64_t parts = PartsOf(w, all[dim]);
    const int64_t each = CeilDiv(all[dim], parts);
    Dims one = all, line = all;
    one[dim] = each, line[dim] = each * parts;
    one.insert(one.begin() + static_cast<std::ptrdiff_t>(dim) + 1, 1);
    std::vector<Instruction*> made;
    for (int64_t part = 0; part < parts; ++part) {
      Instruction* windows = nullptr;
      if (const std::optional<WindowDim> taps = TapsThatMeet(w, part, parts, each, extent)) {
        window[dim] = *taps;
        KRAFLA_ASSIGN(windows, InParts(window, dim + 1));
      } else {
        Dims dims = all;
        dims[dim] = each;
        windows = rewrite_.Broadcast(i_->operand(1), dims, {});
      }
      if (parts == 1) return windows;
      made.push_back(rewrite_.Reshape(windows, one));
    }
    KRAFLA_ASSIGN(Instruction * beside, rewrite_.Infer(Opcode::kConcatenate, std::move(made),
                                                       DimensionsAttributes{{static_cast<int64_t>(dim) + 1}}));
    Instruction* whole = rewrite_.Reshape(beside, line);
    if (line[dim] == all[dim]) return whole;
    return rewrite_.Slice(whole, {Dims(all.size(), 0), all, Dims(all.size(), 1)});
  }

  // Windows that lie so far from each other along a dimension meet elements with the same taps.
  static int64_t PartsOf(const WindowDim& w, int64_t windows) {
    return std::min(windows, w.base_dilation / std::gcd(w.stride, w.base_dilation));
  }

  // With the elements laid apart; null where that takes too much.
  Result<Instruction*> LayApart(Window window) {
    PadAttributes between;
    int64_t elements = 1;
    for (std::size_t d = 0; d < window.size(); ++d) {
      const int64_t dilation = window[d].base_dilation;
      const std::optional<int64_t> steps = CheckedMul(x_->shape().dims()[d] - 1, dilation);
      const std::optional<int64_t> more = steps ? CheckedMul(elements, *steps + 1) : std::nullopt;
      if (!more || *more > kMostElements) return nullptr;
      elements = *more;
      between.low.push_back(0), between.high.push_back(0), between.interior.push_back(dilation - 1);
      window[d].base_dilation = 1;
    }
    if (elements / kMostTimes > x_->shape().element_count()) return nullptr;
    KRAFLA_ASSIGN(Instruction * apart, rewrite_.Infer(Opcode::kPad, {x_, i_->operand(1)}, between));
    return Over(apart, std::move(window));
  }

  Result<Instruction*> Over(Instruction* x, Window window) {
    return rewrite_.Infer(Opcode::kReduceWindow, {x, i_->operand(1)}, WindowAttributes{std::move(window)},
                          {i_->called(0)});
  }
  // How many windows there are along each dimension: those that were expanded already say so themselves.
  Result<Dims> DimsOf(const Window& window) const {
    Dims out = i_->shape().dims();
    for (std::size_t d = 0; d < window.size(); ++d) {
      const WindowDim& w = window[d];
      if (w.base_dilation != 1 || i_->attr<WindowAttributes>().window[d].base_dilation == 1) continue;
      const int64_t padded = x_->shape().dims()[d] + w.padding_low + w.padding_high;
      out[d] = (padded - (w.size - 1) * w.window_dilation - 1) / w.stride + 1;
    }
    return out;
  }

  Instruction* const i_;
  Instruction* const x_;
  Rewriter& rewrite_;
};

Result<Instruction*> ExpandDilation(Instruction* i) {
  KRAFLA_ASSIGN(Instruction * repeated, RepeatElements(i));
  if (repeated != nullptr) return repeated;
  if (!IsStatic(*i) || i->operand_count() != 2 || i->shape().IsTuple()) return nullptr;
  if (i->operand(0)->shape().element_count() == 0 || i->shape().element_count() == 0) return nullptr;
  const Window& window = i->attr<WindowAttributes>().window;
  if (std::ranges::all_of(window, [](const WindowDim& w) { return w.base_dilation == 1; })) return nullptr;
  Rewriter rewrite(*i);
  return DilatedWindow(i, rewrite).Expand();
}

}  // namespace

Result<bool> DilatedWindowExpander(Module& module, const PassOptions&) {
  return RewriteAll(module, Opcode::kReduceWindow, ExpandDilation);
}

}  // namespace krafla
