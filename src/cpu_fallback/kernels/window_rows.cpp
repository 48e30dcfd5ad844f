// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/window_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/window_rows.cpp"
#include <hwy/foreach_target.h>

#include "cpu_fallback/kernels/reduce_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

// Elsewhere a load under a mask may read all of its lanes.
inline constexpr bool kHasRowMasks = HWY_MAX_BYTES == 64 && !HWY_HAVE_SCALABLE;

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
// The processor has an extremum of which +0 is larger than -0; only NaNs are to be looked for beside it.
template <bool kIsMaximum>
struct ExtremumByRange : AsTheyAre<> {
  static constexpr int kRange = kIsMaximum ? 5 : 4;  // with the sign of what is taken
  static HWY_INLINE __m512 Do(__m512 x, __m512 y) { return _mm512_range_ps(x, y, kRange); }
  static HWY_INLINE __m512d Do(__m512d x, __m512d y) { return _mm512_range_pd(x, y, kRange); }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Do(D d, V x, V y) {
    return hn::IfThenElse(hn::IsEitherNaN(x, y), hn::Set(d, NanOf<hn::TFromD<D>>()), V{Do(x.raw, y.raw)});
  }
};
template <class T, bool kIsMaximum>
using FloatExtremum = ExtremumByRange<kIsMaximum>;
#else
template <class T, bool kIsMaximum>
using FloatExtremum = std::conditional_t<kIsMaximum, MaxOp<T>, MinOp<T>>;
#endif
template <class T, bool kIsMaximum>
using RowExtremum = std::conditional_t<std::is_floating_point_v<T>, FloatExtremum<T, kIsMaximum>,
                                       std::conditional_t<kIsMaximum, MaxOp<T>, MinOp<T>>>;

// Several rows side by side, of which none waits for another one.
template <std::size_t kRows, class T, class F, class D, class M>
HWY_INLINE void FoldSideBySide(D d, const T* in, int64_t row_stride, const WindowLoad* loads, int64_t count,
                               const std::byte* orders, hn::Vec<D> initial, M all, T* to, int64_t to_stride) {
  using Place = hwy::MakeUnsigned<T>;
  hn::Vec<D> sums[kRows];
  KRAFLA_UNROLL(4) for (std::size_t r = 0; r < kRows; ++r) sums[r] = initial;
  for (int64_t k = 0; k < count; ++k) {
    const T* at = in + loads[k].offset;
    const auto mask = hn::LoadMaskBits(d, reinterpret_cast<const uint8_t*>(&loads[k].lanes));
    if (loads[k].order < 0) {
      KRAFLA_UNROLL(4) for (std::size_t r = 0; r < kRows; ++r) {
        const auto value = hn::MaskedLoad(mask, d, at + static_cast<int64_t>(r) * row_stride);
        sums[r] = hn::IfThenElse(mask, F::Do(d, sums[r], F::Enter(d, value)), sums[r]);
      }
      continue;
    }
    const auto read = hn::LoadMaskBits(d, reinterpret_cast<const uint8_t*>(&loads[k].read));
    const auto order =
        hn::SetTableIndices(d, reinterpret_cast<const Place*>(orders + loads[k].order * kWindowOrderBytes));
    KRAFLA_UNROLL(4) for (std::size_t r = 0; r < kRows; ++r) {
      const auto values = hn::MaskedLoad(read, d, at + static_cast<int64_t>(r) * row_stride);
      sums[r] = hn::IfThenElse(mask, F::Do(d, sums[r], F::Enter(d, hn::TableLookupLanes(values, order))), sums[r]);
    }
  }
  KRAFLA_UNROLL(4)
  for (std::size_t r = 0; r < kRows; ++r)
    hn::BlendedStore(F::Leave(d, sums[r]), all, d, to + static_cast<int64_t>(r) * to_stride);
}

template <class T, class F>
void FoldWindowRows(const void* from, int64_t row_stride, const WindowLoad* loads, int64_t count,
                    const std::byte* orders, const void* initial, void* target, int64_t to_stride, int64_t rows,
                    int64_t lanes) {
  if constexpr (kHasRowMasks) {
    const hn::ScalableTag<T> d;
    const T* in = static_cast<const T*>(from);
    T* to = static_cast<T*>(target);
    const auto first = F::Enter(d, hn::Set(d, *static_cast<const T*>(initial)));
    const auto all = hn::FirstN(d, static_cast<std::size_t>(lanes));
    constexpr int64_t kRows = 4;
    int64_t r = 0;
    for (; r + kRows <= rows; r += kRows, in += kRows * row_stride, to += kRows * to_stride)
      FoldSideBySide<kRows, T, F>(d, in, row_stride, loads, count, orders, first, all, to, to_stride);
    for (; r < rows; ++r, in += row_stride, to += to_stride)
      FoldSideBySide<1, T, F>(d, in, row_stride, loads, count, orders, first, all, to, to_stride);
  }
}

template <class Sum, class Number>
WindowRowOps OfNumbers(plan::Reduction::Kind kind) {
  WindowRowOps out;
  if constexpr (kHasRowMasks) {
    out.lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<Number>()));
    if (kind == plan::Reduction::Kind::kSum) out.fold = &FoldWindowRows<Sum, SumOp<Sum>>;
    else if (kind == plan::Reduction::Kind::kMax) out.fold = &FoldWindowRows<Number, RowExtremum<Number, true>>;
    else if (kind == plan::Reduction::Kind::kMin) out.fold = &FoldWindowRows<Number, RowExtremum<Number, false>>;
  }
  return out;
}

// Extrema of floats of 16 bits by those, as integers.
template <int16_t kInfinity>
WindowRowOps OfNarrowFloats(plan::Reduction::Kind kind) {
  WindowRowOps out;
  if constexpr (kHasRowMasks) {
    out.lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<int16_t>()));
    if (kind == plan::Reduction::Kind::kMax)
      out.fold = &FoldWindowRows<int16_t, ExtremumOfBits<int16_t, kInfinity, true>>;
    else if (kind == plan::Reduction::Kind::kMin)
      out.fold = &FoldWindowRows<int16_t, ExtremumOfBits<int16_t, kInfinity, false>>;
  }
  return out;
}

WindowRowOps FindRowOps(plan::Reduction::Kind kind, ElementType type) {
  if (type == ElementType::kF32) return OfNumbers<float, float>(kind);
  if (type == ElementType::kF64) return OfNumbers<double, double>(kind);
  if (type == ElementType::kS8) return OfNumbers<uint8_t, int8_t>(kind);
  if (type == ElementType::kU8) return OfNumbers<uint8_t, uint8_t>(kind);
  if (type == ElementType::kS16) return OfNumbers<uint16_t, int16_t>(kind);
  if (type == ElementType::kU16) return OfNumbers<uint16_t, uint16_t>(kind);
  if (type == ElementType::kS32) return OfNumbers<uint32_t, int32_t>(kind);
  if (type == ElementType::kU32) return OfNumbers<uint32_t, uint32_t>(kind);
  if (type == ElementType::kS64) return OfNumbers<uint64_t, int64_t>(kind);
  if (type == ElementType::kU64) return OfNumbers<uint64_t, uint64_t>(kind);
  if (type == ElementType::kBF16) return OfNarrowFloats<0x7f80>(kind);
  if (type == ElementType::kF16) return OfNarrowFloats<0x7c00>(kind);
  return {};
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindRowOps);
WindowRowOps FindWindowRowOps(plan::Reduction::Kind kind, ElementType type) {
  return HWY_DYNAMIC_DISPATCH(FindRowOps)(kind, type);
}
}  // namespace krafla::cpu
#endif
