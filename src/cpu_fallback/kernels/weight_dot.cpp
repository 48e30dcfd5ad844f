// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/weight_dot.h"

#include <algorithm>
#include <cstring>

#include "cpu_fallback/kernels/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/weight_dot.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu_fallback/kernels/weight_codes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Without vectors of AVX2 the block interpreter is no slower.
#if !HWY_ARCH_X86 || HWY_TARGET <= HWY_AVX2

constexpr int64_t kBytesAhead = 512;  // of a line, which the processor has asked for when they are read

template <Kind kKind, WeightKind kHow, bool kShifts, bool kPlain, bool kIsUpper>
struct Columns {
  using Factors = ColumnFactors<kHow, kPlain>;

  // Places `kPlace` and on of a row, of which `loaded` are the codes.
  template <int kCount, int kPlace>
  static HWY_INLINE void AddPlaces(const hn::Vec<Words> (&loaded)[kCount], F numbers, const Factors (&factors)[kCount],
                                   const F (&zeros)[kCount], const float* vector, F (&sums)[kCount]) {
    const F x = hn::Set(Floats(), vector[kPlace]);
    KRAFLA_UNROLL(4)
    for (int v = 0; v < kCount; ++v) {
      F n = NumberOf<kKind, kIsUpper ? 1 : kPlace>(loaded[v], numbers);
      if constexpr (kShifts) n = hn::Sub(n, zeros[v]);
      sums[v] = hn::MulAdd(x, factors[v].Weight(n), sums[v]);
    }
    if constexpr (kPlace + 1 < PlacesOfRow<kKind>())
      AddPlaces<kCount, kPlace + 1>(loaded, numbers, factors, zeros, vector, sums);
  }

  template <int kCount>
  static HWY_INLINE void Run(const CodeShift& shift, const WeightDotTurn& t, const F (&scales)[kCount], int64_t column,
                             int64_t count) {
    const Floats d;
    const auto lanes = static_cast<std::size_t>(count);
    Factors factors[kCount];
    F sums[kCount], zeros[kCount];
    PrepareColumns<kKind, kShifts>(shift, t.zeros, scales, column, count, factors, zeros);
    KRAFLA_UNROLL(4)
    for (int v = 0; v < kCount; ++v) sums[v] = hn::Zero(d);
    const F numbers = hn::Load(d, shift.numbers);
    const std::byte* row = t.weights + ByteOf<kKind>(column);
    const int64_t rows = t.places / PlacesOfRow<kKind>();
    // What several pieces of columns have in a line of memory each of them fetches a part of, row by row: memory gives
    // most where it is asked at all times.
    constexpr int64_t kBytes = ByteOf<kKind>(kCount * kLanes), kPieces = kBytes < 64 ? 64 / kBytes : 1;
    const int64_t piece = static_cast<int64_t>(reinterpret_cast<std::uintptr_t>(row) % 64) / kBytes;
    const float* vector = t.vector;
    for (int64_t r = 0; r < rows; ++r, row += t.stride, vector += PlacesOfRow<kKind>()) {
      if (r % kPieces == piece)
        for (int64_t b = 0; b < kBytes; b += 64) __builtin_prefetch(row + t.ahead + b, 0, 2);
      hn::Vec<Words> loaded[kCount];
      LoadRow<kKind, kShifts>(shift, row, count, loaded);
      AddPlaces<kCount, 0>(loaded, numbers, factors, zeros, vector, sums);
    }
    KRAFLA_UNROLL(4)
    for (int v = 0; v < kCount; ++v) {
      float* to = t.sums + column + v * kLanes;
      hn::StoreN(hn::Add(LoadAs(d, to, lanes), LanesToColumns<kKind>(sums[v])), d, to, lanes);
    }
  }
};

template <Kind kKind, WeightKind kHow, class S, bool kShifts, bool kIsUpper, int kCount>
HWY_INLINE void DotOfColumns(const CodeShift& shift, const WeightDotTurn& t, int64_t column, int64_t count) {
  F scales[kCount];
  if (LoadScalesOf<kHow, S>(t.scales, column, count, scales))
    Columns<kKind, kHow, kShifts, false, kIsUpper>::template Run<kCount>(shift, t, scales, column, count);
  else Columns<kKind, kHow, kShifts, true, kIsUpper>::template Run<kCount>(shift, t, scales, column, count);
}

template <Kind kKind, WeightKind kHow, class S, bool kShifts, bool kIsUpper>
HWY_INLINE void DotOfTurn(const CodeShift& shift, const WeightDotTurn& t) {
  int64_t column = 0;
  for (; column + kVectors * kLanes <= t.columns; column += kVectors * kLanes)
    DotOfColumns<kKind, kHow, S, kShifts, kIsUpper, kVectors>(shift, t, column, kLanes);
  for (; column < t.columns; column += kLanes)
    DotOfColumns<kKind, kHow, S, kShifts, kIsUpper, 1>(shift, t, column, std::min(kLanes, t.columns - column));
}

template <Kind kKind, WeightKind kHow, class S, bool kIsUpper>
void Dot(const CodeForm& form, const WeightDotTurn& t) {
  const CodeShift shift = ShiftOf<kKind>(form);
  if (shift.flip == 0 && shift.zero == 0 && t.zeros == nullptr) DotOfTurn<kKind, kHow, S, false, kIsUpper>(shift, t);
  else DotOfTurn<kKind, kHow, S, true, kIsUpper>(shift, t);
}

// Some lines side by side. Places in a byte lie as columns do.
template <Kind kKind, WeightKind kHow, class S, bool kShifts, int kCount>
struct Lines {
  const CodeShift& shift;
  const WeightLinesTurn& t;
  int64_t line;

  template <bool kPlain>
  HWY_INLINE void AddPlaces(const F (&scales)[kCount], int64_t begin, int64_t end, F (&sums)[kCount]) const {
    const Floats d;
    ColumnFactors<kHow, kPlain> factors[kCount];
    const std::byte* from[kCount];
    KRAFLA_UNROLL(4)
    for (int i = 0; i < kCount; ++i) factors[i].Set(scales[i]), from[i] = t.weights + (line + i) * t.stride;
    const F zero = hn::Set(d, shift.zero);
    const auto add = [&](int64_t p, int64_t count) HWY_ATTR {
      const F x = LoadAs(d, t.vector + p, static_cast<std::size_t>(count));
      const auto is_there = hn::FirstN(d, static_cast<std::size_t>(count));
      KRAFLA_UNROLL(4)
      for (int i = 0; i < kCount; ++i) {
        auto loaded = LoadCodes<kKind>(from[i] + ByteOf<kKind>(p), count);
        if constexpr (kShifts) loaded = hn::Xor(loaded, hn::Set(Words(), shift.flip));
        F n = NumberOf<kKind, 0>(loaded, hn::Zero(d));
        if constexpr (kShifts) n = hn::Sub(n, zero);
        F weight = factors[i].Weight(n);
        if (count < kLanes) weight = hn::IfThenElseZero(is_there, weight);
        sums[i] = hn::MulAdd(x, weight, sums[i]);
      }
    };
    int64_t p = begin;
    for (; p + kLanes <= end; p += kLanes) {
      if (ByteOf<kKind>(p) % 64 < ByteOf<kKind>(kLanes))
        for (const std::byte* line_at : from) __builtin_prefetch(line_at + ByteOf<kKind>(p) + kBytesAhead, 0, 2);
      add(p, kLanes);
    }
    if (p < end) add(p, end - p);
  }

  HWY_INLINE void Run() const {
    // Lanes sum so many places before they are added to what was there: that bounds the error.
    constexpr int64_t kMostPlaces = 2048;
    const Floats d;
    F totals[kCount], sums[kCount], scales[kCount];
    KRAFLA_UNROLL(4)
    for (int i = 0; i < kCount; ++i) totals[i] = sums[i] = hn::Zero(d), scales[i] = hn::Set(d, 1.0f);
    for (int64_t begin = 0, next = 0, since = 0; begin < t.depth; begin = next) {
      next = std::min({t.depth, (begin / t.group + 1) * t.group, begin + kMostPlaces});
      bool is_ordinary = true;
      if constexpr (kHow != WeightKind::kCodes) {
        KRAFLA_UNROLL(4)
        for (int i = 0; i < kCount; ++i) {
          const S* of_line = reinterpret_cast<const S*>(t.scales) + (line + i) * t.scales_stride;
          scales[i] = hn::BroadcastLane<0>(LoadAs(d, of_line + begin / t.group, 1));
          is_ordinary = is_ordinary && ColumnFactors<kHow, false>::IsOrdinary(scales[i]);
        }
      }
      if (is_ordinary) AddPlaces<false>(scales, begin, next, sums);
      else AddPlaces<true>(scales, begin, next, sums);
      since += next - begin;
      if (since < kMostPlaces && next < t.depth) continue;
      since = 0;
      KRAFLA_UNROLL(4)
      for (int i = 0; i < kCount; ++i) totals[i] = hn::Add(totals[i], sums[i]), sums[i] = hn::Zero(d);
    }
    StoreSums(d, totals, t.sums + line);
  }
};

template <Kind kKind, WeightKind kHow, class S, bool kShifts>
HWY_INLINE void DotOfAllLines(const CodeShift& shift, const WeightLinesTurn& t) {
  int64_t line = 0;
  for (; line + 4 <= t.lines; line += 4) Lines<kKind, kHow, S, kShifts, 4>{shift, t, line}.Run();
  for (; line < t.lines; ++line) Lines<kKind, kHow, S, kShifts, 1>{shift, t, line}.Run();
}
template <Kind kKind, WeightKind kHow, class S>
void DotLines(const CodeForm& form, const WeightLinesTurn& t) {
  const CodeShift shift = ShiftOf<kKind>(form);
  if (shift.flip == 0 && shift.zero == 0) DotOfAllLines<kKind, kHow, S, false>(shift, t);
  else DotOfAllLines<kKind, kHow, S, true>(shift, t);
}
template <Kind kKind>
WeightLinesFn LinesOf(WeightKind how, ElementType scales) {
  if (how == WeightKind::kCodes) return &DotLines<kKind, WeightKind::kCodes, float>;
  if (how == WeightKind::kProducts && scales == ElementType::kF32)
    return &DotLines<kKind, WeightKind::kProducts, float>;
  if (how == WeightKind::kProducts && scales == ElementType::kBF16)
    return &DotLines<kKind, WeightKind::kProducts, Bf16>;
  if (how == WeightKind::kF16Products && scales == ElementType::kF16)
    return &DotLines<kKind, WeightKind::kF16Products, hwy::float16_t>;
  if (how == WeightKind::kBf16Products && scales == ElementType::kBF16)
    return &DotLines<kKind, WeightKind::kBf16Products, Bf16>;
  return nullptr;
}
WeightLinesFn FindLines([[maybe_unused]] Kind kind, [[maybe_unused]] WeightKind how,
                        [[maybe_unused]] ElementType scales) {
  // Native code adds up such lines.
  if constexpr (kHasTables) return nullptr;
  else if (kind == Kind::kLineBytes) return LinesOf<Kind::kBytes>(how, scales);
  else if (kind == Kind::kLinePairs) return LinesOf<Kind::kColumnPairs>(how, scales);
  return nullptr;
}

template <Kind kKind, bool kIsUpper = false>
WeightDotFn DotOf(WeightKind how, ElementType scales) {
  const bool is_bf16 = scales == ElementType::kBF16;
  switch (how) {
    case WeightKind::kCodes: return &Dot<kKind, WeightKind::kCodes, float, kIsUpper>;
    case WeightKind::kProducts:
      return scales == ElementType::kF32   ? &Dot<kKind, WeightKind::kProducts, float, kIsUpper>
             : scales == ElementType::kF16 ? &Dot<kKind, WeightKind::kProducts, hwy::float16_t, kIsUpper>
             : is_bf16                     ? &Dot<kKind, WeightKind::kProducts, Bf16, kIsUpper>
                                           : nullptr;
    case WeightKind::kF16Products:
      return scales == ElementType::kF16 ? &Dot<kKind, WeightKind::kF16Products, hwy::float16_t, kIsUpper> : nullptr;
    case WeightKind::kBf16Products: return is_bf16 ? &Dot<kKind, WeightKind::kBf16Products, Bf16, kIsUpper> : nullptr;
    case WeightKind::kBf16Quotients: return is_bf16 ? &Dot<kKind, WeightKind::kBf16Quotients, Bf16, kIsUpper> : nullptr;
  }
  return nullptr;
}
WeightDotFn FindDot(Kind kind, WeightKind how, ElementType scales, bool is_upper) {
  switch (kind) {
    case Kind::kLinePairs:
    case Kind::kLineBytes: break;
    case Kind::kBytes: return DotOf<Kind::kBytes>(how, scales);
    case Kind::kColumnPairs: return DotOf<Kind::kColumnPairs>(how, scales);
    case Kind::kRowPairs: return DotOf<Kind::kRowPairs>(how, scales);
    case Kind::kWords: return DotOf<Kind::kWords>(how, scales);
    case Kind::kHalves: return is_upper ? DotOf<Kind::kHalves, true>(how, scales) : DotOf<Kind::kHalves>(how, scales);
  }
  return nullptr;
}

#else

WeightDotFn FindDot(CodeForm::Kind, WeightKind, ElementType, bool) { return nullptr; }
WeightLinesFn FindLines(CodeForm::Kind, WeightKind, ElementType) { return nullptr; }

#endif

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindDot);
HWY_EXPORT(FindLines);

WeightDotFn FindWeightDot(CodeForm::Kind kind, WeightKind how, ElementType scales, bool is_upper) {
  return HWY_DYNAMIC_DISPATCH(FindDot)(kind, how, scales, is_upper);
}

WeightLinesFn FindWeightLines(CodeForm::Kind kind, WeightKind how, ElementType scales) {
  return HWY_DYNAMIC_DISPATCH(FindLines)(kind, how, scales);
}

}  // namespace krafla::cpu
#endif
