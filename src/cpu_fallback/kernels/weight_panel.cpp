// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/weight_panel.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/weight_panel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu_fallback/kernels/weight_codes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

#if !HWY_ARCH_X86 || HWY_TARGET <= HWY_AVX2

using Halves = hn::Repartition<uint16_t, Floats>;
using HalfOfHalves = hn::Half<Halves>;

// The upper halves of the bits of some floats, whose lower ones are zeros, in the order of their columns.
template <Kind kKind>
HWY_INLINE hn::Vec<Halves> UpperHalvesOf(F low, F high) {
  const Halves d;
  const auto a = hn::BitCast(d, low), b = hn::BitCast(d, high);
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  if constexpr (kMovesColumns<kKind>) {
    alignas(64) static constexpr uint16_t kPlaces[] = {1,  5,  9,  13, 17, 21, 25, 29, 3,  7,  11, 15, 19, 23, 27, 31,
                                                       33, 37, 41, 45, 49, 53, 57, 61, 35, 39, 43, 47, 51, 55, 59, 63};
    return hn::Vec<Halves>{_mm512_permutex2var_epi16(a.raw, _mm512_load_si512(kPlaces), b.raw)};
  }
#endif
  return hn::ConcatOdd(d, b, a);
}

template <Kind kKind, WeightKind kHow, bool kShifts, bool kPlain, bool kIsUpper>
struct PanelColumns {
  using Factors = ColumnFactors<kHow, kPlain>;

  // Two vectors of weights at a time, or the only one.
  template <int kCount>
  static HWY_INLINE void Store(const F (&weights)[kCount], int64_t count, uint16_t* to) {
    const Halves d;
    if constexpr (kCount == 1) {
      const auto both = UpperHalvesOf<kKind>(weights[0], weights[0]);
      hn::StoreN(hn::LowerHalf(HalfOfHalves(), both), HalfOfHalves(), to, static_cast<std::size_t>(count));
    } else {
      static_assert(kCount % 2 == 0);
      KRAFLA_UNROLL(2)
      for (int v = 0; v < kCount; v += 2)
        hn::StoreU(UpperHalvesOf<kKind>(weights[v], weights[v + 1]), d, to + v * kLanes);
    }
  }

  // Places `kPlace` and on of a row, of which `loaded` are the codes.
  template <int kCount, int kPlace>
  static HWY_INLINE void StorePlaces(const hn::Vec<Words> (&loaded)[kCount], F numbers,
                                     const Factors (&factors)[kCount], const F (&zeros)[kCount], int64_t count,
                                     uint16_t* to, int64_t to_stride) {
    F weights[kCount];
    KRAFLA_UNROLL(4)
    for (int v = 0; v < kCount; ++v) {
      F n = NumberOf<kKind, kIsUpper ? 1 : kPlace>(loaded[v], numbers);
      if constexpr (kShifts) n = hn::Sub(n, zeros[v]);
      weights[v] = factors[v].Weight(n);
    }
    Store(weights, count, to);
    if constexpr (kPlace + 1 < PlacesOfRow<kKind>())
      StorePlaces<kCount, kPlace + 1>(loaded, numbers, factors, zeros, count, to + to_stride, to_stride);
  }

  template <int kCount>
  static HWY_INLINE void Run(const CodeShift& shift, const WeightPanelTurn& t, const F (&scales)[kCount],
                             int64_t column, int64_t count) {
    Factors factors[kCount];
    F zeros[kCount];
    PrepareColumns<kKind, kShifts>(shift, t.zeros, scales, column, count, factors, zeros);
    const F numbers = hn::Load(Floats(), shift.numbers);
    const std::byte* row = t.weights + ByteOf<kKind>(column);
    uint16_t* to = t.to + column;
    constexpr int kPlaces = PlacesOfRow<kKind>();
    for (int64_t r = 0; r < t.places / kPlaces; ++r, row += t.stride, to += kPlaces * t.to_stride) {
      hn::Vec<Words> loaded[kCount];
      LoadRow<kKind, kShifts>(shift, row, count, loaded);
      StorePlaces<kCount, 0>(loaded, numbers, factors, zeros, count, to, t.to_stride);
    }
  }
};

template <Kind kKind, WeightKind kHow, bool kShifts, bool kIsUpper, int kCount>
HWY_INLINE void PanelOfColumns(const CodeShift& shift, const WeightPanelTurn& t, int64_t column, int64_t count) {
  F scales[kCount];
  if (LoadScalesOf<kHow, Bf16>(t.scales, column, count, scales))
    PanelColumns<kKind, kHow, kShifts, false, kIsUpper>::template Run<kCount>(shift, t, scales, column, count);
  else PanelColumns<kKind, kHow, kShifts, true, kIsUpper>::template Run<kCount>(shift, t, scales, column, count);
}

template <Kind kKind, WeightKind kHow, bool kShifts, bool kIsUpper>
HWY_INLINE void PanelOfTurn(const CodeShift& shift, const WeightPanelTurn& t) {
  int64_t column = 0;
  for (; column + kVectors * kLanes <= t.columns; column += kVectors * kLanes)
    PanelOfColumns<kKind, kHow, kShifts, kIsUpper, kVectors>(shift, t, column, kLanes);
  for (; column < t.columns; column += kLanes)
    PanelOfColumns<kKind, kHow, kShifts, kIsUpper, 1>(shift, t, column, std::min(kLanes, t.columns - column));
}

template <Kind kKind, WeightKind kHow, bool kIsUpper>
void Panel(const CodeForm& form, const WeightPanelTurn& t) {
  const CodeShift shift = ShiftOf<kKind>(form);
  if (shift.flip == 0 && shift.zero == 0 && t.zeros == nullptr) PanelOfTurn<kKind, kHow, false, kIsUpper>(shift, t);
  else PanelOfTurn<kKind, kHow, true, kIsUpper>(shift, t);
}

template <Kind kKind, bool kIsUpper = false>
WeightPanelFn PanelOf(WeightKind how) {
  if (how == WeightKind::kCodes) return &Panel<kKind, WeightKind::kCodes, kIsUpper>;
  if (how == WeightKind::kBf16Products) return &Panel<kKind, WeightKind::kBf16Products, kIsUpper>;
  if (how == WeightKind::kBf16Quotients) return &Panel<kKind, WeightKind::kBf16Quotients, kIsUpper>;
  return nullptr;
}
WeightPanelFn FindPanel(Kind kind, WeightKind how, ElementType scales, bool is_upper) {
  if (how != WeightKind::kCodes && scales != ElementType::kBF16) return nullptr;
  switch (kind) {
    case Kind::kLinePairs:
    case Kind::kLineBytes: break;
    case Kind::kBytes: return PanelOf<Kind::kBytes>(how);
    case Kind::kColumnPairs: return PanelOf<Kind::kColumnPairs>(how);
    case Kind::kRowPairs: return PanelOf<Kind::kRowPairs>(how);
    case Kind::kWords: return PanelOf<Kind::kWords>(how);
    case Kind::kHalves: return is_upper ? PanelOf<Kind::kHalves, true>(how) : PanelOf<Kind::kHalves>(how);
  }
  return nullptr;
}

#else

WeightPanelFn FindPanel(CodeForm::Kind, WeightKind, ElementType, bool) { return nullptr; }

#endif

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindPanel);

WeightPanelFn FindWeightPanel(CodeForm::Kind kind, WeightKind how, ElementType scales, bool is_upper) {
  return HWY_DYNAMIC_DISPATCH(FindPanel)(kind, how, scales, is_upper);
}

}  // namespace krafla::cpu
#endif
