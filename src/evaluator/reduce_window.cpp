// SPDX-License-Identifier: Apache-2.0
// reduce-window and select-and-scatter. Padding takes no part: init is combined once per window (as XLA:CPU does; for
// an identity that is what the document says).
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "base/checked_math.h"
#include "base/index.h"
#include "base/interruption.h"
#include "evaluator/block_op.h"
#include "evaluator/context.h"
#include "evaluator/fold.h"
#include "evaluator/odometer.h"
#include "evaluator/scalar_program.h"
#include "evaluator/strided.h"
#include "ir/window_order.h"

namespace krafla::evaluator {

namespace {

constexpr int64_t kWindows = 256;

// Where tap `tap` of the window at `position` reads in one dimension; -1: padding. Reversed windows are refused when
// shapes are inferred.
int64_t Source(const WindowDim& w, int64_t position, int64_t tap, int64_t extent) {
  const int64_t at = position * w.stride + tap * w.window_dilation - w.padding_low;
  if (at < 0 || at % w.base_dilation != 0) return -1;
  return at / w.base_dilation < extent ? at / w.base_dilation : -1;
}

Dims WindowSizes(const Window& window) {
  Dims out;
  for (const WindowDim& w : window) out.push_back(w.size);
  return out;
}
Result<int64_t> CountTaps(const Dims& sizes) {
  int64_t out = 1;
  for (int64_t s : sizes) {
    auto product = CheckedMul(out, s);
    if (!product) return ResourceExhausted("A window has more than 2^63 elements.");
    out = *product;
  }
  return out;
}

// The taps that can read inside the operand for any of `count` windows: others, which may be most of those of a window
// that is larger than its operand, read padding alone.
struct TapRange {
  Dims first, sizes;
  int64_t count = 1;

  TapRange(const Window& window, const Shape& shape, std::span<const int64_t> positions, int64_t windows) {
    const std::size_t rank = window.size();
    for (std::size_t d = 0; d < rank; ++d) {
      const WindowDim& w = window[d];
      __int128 least = positions[d], most = positions[d];
      for (int64_t k = 1; k < windows; ++k) {
        least = std::min<__int128>(least, positions[At(k) * rank + d]);
        most = std::max<__int128>(most, positions[At(k) * rank + d]);
      }
      // 0 <= position * stride + t * dilation - low <= the last place of the operand, spread out.
      const __int128 last = (static_cast<__int128>(shape.dim(static_cast<int64_t>(d))) - 1) * w.base_dilation;
      const __int128 from = w.padding_low - most * w.stride, to = last + w.padding_low - least * w.stride;
      const __int128 dilation = w.window_dilation;
      const __int128 begin = from <= 0 ? 0 : std::min<__int128>((from + dilation - 1) / dilation, w.size);
      const __int128 end = last < 0 || to < 0 ? begin : std::clamp<__int128>(to / dilation + 1, begin, w.size);
      first.push_back(static_cast<int64_t>(begin));
      sizes.push_back(static_cast<int64_t>(end - begin));
      count *= sizes.back();  // at most as many as the window has
    }
  }
  // The next tap after `tap`; after the last, the first.
  void Next(Dims& tap) const {
    for (std::size_t d = tap.size(); d-- > 0;) {
      if (++tap[d] < first[d] + sizes[d]) return;
      tap[d] = first[d];
    }
  }
};

// Offsets into the operand that one tap reads for results [at, at + count) ; -1 for padding. Returns whether all are
// inside, or none.
enum class Inside { kAll, kSome, kNone };
Inside TapOffsets(const Window& window, const Shape& shape, std::span<const int64_t> strides,
                  std::span<const int64_t> tap, std::span<const int64_t> positions, int64_t count, int64_t* offsets) {
  const std::size_t rank = window.size();
  int64_t inside = 0;
  for (int64_t k = 0; k < count; ++k) {
    int64_t offset = 0;
    for (std::size_t d = 0; d < rank && offset >= 0; ++d) {
      const int64_t s = Source(window[d], positions[At(k) * rank + d], tap[d], shape.dim(static_cast<int64_t>(d)));
      offset = s < 0 ? -1 : offset + s * strides[d];
    }
    offsets[k] = offset;
    inside += offset >= 0;
  }
  return inside == count ? Inside::kAll : inside == 0 ? Inside::kNone : Inside::kSome;
}

// A reduce-window: kWindows windows at once, tap by tap. A simple combiner folds, and keeps a sum of narrow floats
// wide, as in reduce.
class WindowReducer {
 public:
  WindowReducer(const Window& window, Operands operands, std::span<Literal> outs, ScalarFunction& f,
                const std::optional<Folder>& fold)
      : window_(window),
        operands_(operands),
        outs_(outs),
        f_(f),
        fold_(fold),
        shape_(operands[0].shape()),
        strides_(RowMajorStrides(shape_.dims())),
        wide_taken_(fold ? At(fold->wide_bytes * kWindows) : 0),
        positions_(At(kWindows) * std::max<std::size_t>(window.size(), 1)),
        offsets_(At(kWindows)),
        in_(2 * outs.size()),
        to_(outs.size()),
        position_(window.size(), 0) {
    for (std::size_t o = 0; o < outs.size(); ++o) {
      const std::size_t bytes = At(fold ? fold->wide_bytes : f.parameter_bytes(o)) * kWindows;
      acc_.emplace_back(bytes, false);
      next_.emplace_back(bytes, false);
      gathered_.emplace_back(bytes, true);
    }
    if (!fold) return;
    widen_.from = narrow_.to = shape_.element_type();
    widen_.to = narrow_.from = fold->wide;
  }

  Result<> Run() {
    const int64_t results = outs_[0].shape().element_count();
    InterruptionPoll poll;
    for (int64_t at = 0; at < results && !poll.Ends(kWindows); at += kWindows) {
      const int64_t count = std::min(kWindows, results - at);
      Begin(count);
      const TapRange range(window_, shape_, positions_, count);
      Dims tap = range.first;
      for (int64_t t = 0; t < range.count; ++t, range.Next(tap)) {
        if (poll.Ends(count)) KRAFLA_TRY(CheckInterrupted());
        const Inside inside = TapOffsets(window_, shape_, strides_, tap, positions_, count, offsets_.data());
        if (inside == Inside::kNone) continue;
        Gather(count);
        if (fold_) Fold(inside, count);
        else KRAFLA_TRY(Combine(inside, count));
      }
      Store(at, count);
    }
    return {};
  }

 private:
  // The positions of the next `count` windows, and the initial values.
  void Begin(int64_t count) {
    for (int64_t k = 0; k < count; ++k) {
      std::copy(position_.begin(), position_.end(), positions_.begin() + k * static_cast<int64_t>(window_.size()));
      NextIndex(position_, outs_[0].shape().dims());
    }
    for (std::size_t o = 0; o < outs_.size(); ++o) {
      const std::byte* init = operands_[outs_.size() + o].array().bytes().data();
      if (fold_) {
        alignas(16) std::byte first[16];
        const void* source[] = {init};
        ConvertBlock(source, first, 1, widen_);
        FillElements(acc_[0].data(), count, fold_->wide_bytes, first);
      } else {
        FillElements(acc_[o].data(), count, static_cast<int>(f_.parameter_bytes(o)), init);
      }
    }
  }

  // What a tap reads inside of the operands.
  void Gather(int64_t count) {
    for (std::size_t o = 0; o < outs_.size(); ++o) {
      const std::byte* x = operands_[o].array().bytes().data();
      const int64_t bytes = f_.parameter_bytes(o);
      for (int64_t k = 0; k < count; ++k)
        if (offsets_[At(k)] >= 0) std::memcpy(gathered_[o].data() + k * bytes, x + offsets_[At(k)] * bytes, At(bytes));
    }
  }

  void Fold(Inside inside, int64_t count) {
    const void* source[] = {gathered_[0].data()};
    ConvertBlock(source, wide_taken_.data(), count, widen_);
    if (inside == Inside::kAll) return fold_->each(acc_[0].data(), wide_taken_.data(), count);
    for (int64_t k = 0; k < count; ++k)
      if (offsets_[At(k)] >= 0)
        fold_->each(acc_[0].data() + k * fold_->wide_bytes, wide_taken_.data() + k * fold_->wide_bytes, 1);
  }

  Result<> Combine(Inside inside, int64_t count) {
    for (std::size_t o = 0; o < outs_.size(); ++o) {
      in_[o] = acc_[o].data();
      in_[outs_.size() + o] = gathered_[o].data();
      to_[o] = inside == Inside::kAll ? acc_[o].data() : next_[o].data();
    }
    KRAFLA_TRY(f_.Run(in_, to_, count));
    if (inside == Inside::kAll) return {};
    for (std::size_t o = 0; o < outs_.size(); ++o) {
      const int64_t bytes = f_.parameter_bytes(o);
      for (int64_t k = 0; k < count; ++k)
        if (offsets_[At(k)] >= 0) std::memcpy(acc_[o].data() + k * bytes, next_[o].data() + k * bytes, At(bytes));
    }
    return {};
  }

  void Store(int64_t at, int64_t count) {
    for (std::size_t o = 0; o < outs_.size(); ++o) {
      const int64_t bytes = f_.parameter_bytes(o);
      if (fold_) {
        SettleNans(fold_->wide, acc_[0].data(), count);
        const void* source[] = {acc_[0].data()};
        ConvertBlock(source, outs_[0].bytes().data() + at * bytes, count, narrow_);
      } else {
        std::memcpy(outs_[o].bytes().data() + at * bytes, acc_[o].data(), At(count * bytes));
      }
    }
  }

  const Window& window_;
  Operands operands_;
  std::span<Literal> outs_;
  ScalarFunction& f_;
  const std::optional<Folder>& fold_;
  const Shape& shape_;
  Dims strides_;
  BlockParams widen_, narrow_;
  std::vector<AlignedBytes> acc_, next_, gathered_;
  AlignedBytes wide_taken_;
  std::vector<int64_t> positions_, offsets_;
  std::vector<const void*> in_;
  std::vector<void*> to_;
  Dims position_;
};

}  // namespace

Result<Value> EvalReduceWindow(Context& context, const Instruction& i, Operands operands) {
  const Window& window = i.attr<WindowAttributes>().window;
  const std::size_t n = operands.size() / 2;
  KRAFLA_ASSIGN(Shape result, ResultShape(i, operands));
  std::vector<Literal> outs;
  for (std::size_t o = 0; o < n; ++o) {
    KRAFLA_ASSIGN(Literal out, NewLiteral(context, result.IsTuple() ? result.tuple_elements()[o] : result));
    outs.push_back(std::move(out));
  }
  const Shape& shape = operands[0].shape();
  KRAFLA_ASSIGN(const int64_t taps, CountTaps(WindowSizes(window)));
  ScalarFunction f(context, *i.called(0));
  KRAFLA_TRY(context.SpendProduct(outs[0].shape().element_count(), taps));
  if (f.parameter_count() != 2 * n || window.size() != At(shape.rank()))
    return InvalidArgument("The window of a reduce-window does not fit {}.", shape.ToString(false));
  std::optional<Opcode> simple = AsSimpleBinary(*i.called(0));
  std::optional<Folder> fold;
  const ElementType type = shape.element_type();
  if (simple && n == 1 && outs[0].shape().element_type() == type) fold = FindFolder(*simple, type);
  WindowReducer reducer(window, operands, outs, f, fold);
  KRAFLA_TRY(reducer.Run());
  if (!result.IsTuple()) return Value::Own(std::move(outs[0]));
  std::vector<Value> elements;
  for (Literal& out : outs) elements.push_back(Value::Own(std::move(out)));
  return Value::Tuple(std::move(elements));
}

// Each window selects one element (the first stays while select(old, new) holds); the window's source value is
// combined into the result there. XLA: hlo_evaluator.cc HandleSelectAndScatter; the order is that of ir/window_order.h.
Result<Value> EvalSelectAndScatter(Context& context, const Instruction& i, Operands operands) {
  const Window& window = i.attr<WindowAttributes>().window;
  const Literal &in = operands[0].array(), &source = operands[1].array(), &init = operands[2].array();
  KRAFLA_ASSIGN(Literal out, NewResult(context, i, operands));
  const int64_t bytes = StorageBytes(out.shape().element_type());
  FillElements(out.bytes().data(), out.shape().element_count(), static_cast<int>(bytes), init.bytes().data());
  ScalarFunction select(context, *i.called(0)), scatter(context, *i.called(1));
  const Dims sizes = WindowSizes(window);
  KRAFLA_ASSIGN(const int64_t taps, CountTaps(sizes));
  const int64_t windows = source.shape().element_count();
  KRAFLA_TRY(context.SpendProduct(windows, taps));
  const Dims strides = RowMajorStrides(in.shape().dims());
  const std::size_t rank = window.size();
  const std::optional<int64_t> last =
      DimensionVisitedLast(window, i.operand(0)->shape().dims(), i.operand(1)->shape().dims());
  // The selection goes over blocks of windows, the scatter in order.
  std::vector<int64_t> positions(At(kWindows) * std::max<std::size_t>(rank, 1)), offsets(At(kWindows)),
      chosen(At(kWindows));
  AlignedBytes old_values(At(kWindows * bytes)), new_values(At(kWindows * bytes));
  uint8_t keep[kWindows];
  Dims position(rank, 0);
  InterruptionPoll poll;
  for (int64_t at = 0; at < windows && !poll.Ends(kWindows); at += kWindows) {
    const int64_t count = std::min(kWindows, windows - at);
    for (int64_t k = 0; k < count; ++k) {
      std::copy(position.begin(), position.end(), positions.begin() + k * static_cast<int64_t>(rank));
      NextIndex(position, source.shape().dims());
      chosen[At(k)] = -1;
    }
    const TapRange range(window, in.shape(), positions, count);
    for (int turn = 0; turn < (last ? 2 : 1); ++turn) {
      Dims tap = range.first;
      for (int64_t t = 0; t < range.count; ++t, range.Next(tap)) {
        if (poll.Ends(count)) KRAFLA_TRY(CheckInterrupted());
        if (last && (tap[At(*last)] == sizes[At(*last)] - 1) != (turn == 1)) continue;
        if (TapOffsets(window, in.shape(), strides, tap, positions, count, offsets.data()) == Inside::kNone) continue;
        for (int64_t k = 0; k < count; ++k) {
          if (offsets[At(k)] < 0) continue;
          std::memcpy(new_values.data() + k * bytes, in.bytes().data() + offsets[At(k)] * bytes, At(bytes));
        }
        const void* pair[] = {old_values.data(), new_values.data()};
        void* verdict[] = {keep};
        KRAFLA_TRY(select.Run(pair, verdict, count));
        for (int64_t k = 0; k < count; ++k) {
          if (offsets[At(k)] < 0 || (chosen[At(k)] >= 0 && keep[k] != 0)) continue;
          chosen[At(k)] = offsets[At(k)];
          std::memcpy(old_values.data() + k * bytes, new_values.data() + k * bytes, At(bytes));
        }
      }
    }
    for (int64_t k = 0; k < count; ++k) {
      if (chosen[At(k)] < 0) continue;
      std::byte* to = out.bytes().data() + chosen[At(k)] * bytes;
      const void* pair[] = {to, source.bytes().data() + (at + k) * bytes};
      void* result[] = {to};
      KRAFLA_TRY(scatter.Run(pair, result, 1));
    }
  }
  return Value::Own(std::move(out));
}

}  // namespace krafla::evaluator
