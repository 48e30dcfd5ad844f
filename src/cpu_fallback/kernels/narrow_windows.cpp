// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/narrow_windows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/narrow_windows.cpp"
#include <hwy/foreach_target.h>

#include "cpu_fallback/kernels/half_floats-inl.h"
#include "cpu_fallback/kernels/window_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

using Tiles = decltype(ReduceOps::tiles);

// An extremum of floats by their bits, which stay what they are from one fold to the next.
template <class Extremum>
struct ExtremumOfFloats : AsTheyAre<> {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Do(D d, V x, V y) {
    return Extremum::Leave(d, Extremum::Do(d, Extremum::Enter(d, x), Extremum::Enter(d, y)));
  }
};

template <class Unsigned>
Tiles OfIntegers(plan::Reduction::Kind kind, bool is_signed) {
  using Signed = std::make_signed_t<Unsigned>;
  switch (kind) {
    case plan::Reduction::Kind::kSum: return &ReduceTiles<Unsigned, SumOp<Unsigned>>;
    case plan::Reduction::Kind::kProduct: return &ReduceTiles<Unsigned, ProductOp<Unsigned>>;
    case plan::Reduction::Kind::kMax:
      return is_signed ? &ReduceTiles<Signed, MaxOp<Signed>> : &ReduceTiles<Unsigned, MaxOp<Unsigned>>;
    case plan::Reduction::Kind::kMin:
      return is_signed ? &ReduceTiles<Signed, MinOp<Signed>> : &ReduceTiles<Unsigned, MinOp<Unsigned>>;
    case plan::Reduction::Kind::kAnd: return &ReduceTiles<Unsigned, AndOp<Unsigned>>;
    case plan::Reduction::Kind::kOr: return &ReduceTiles<Unsigned, OrOp<Unsigned>>;
    case plan::Reduction::Kind::kXor: return &ReduceTiles<Unsigned, XorOp<Unsigned>>;
    case plan::Reduction::Kind::kComplexProduct:
    case plan::Reduction::Kind::kOther: return nullptr;
  }
  return nullptr;
}
template <int16_t kInfinity>
Tiles OfFloats(plan::Reduction::Kind kind) {
  if (kind == plan::Reduction::Kind::kMax)
    return &ReduceTiles<int16_t, ExtremumOfFloats<ExtremumOfBits<int16_t, kInfinity, true>>>;
  if (kind == plan::Reduction::Kind::kMin)
    return &ReduceTiles<int16_t, ExtremumOfFloats<ExtremumOfBits<int16_t, kInfinity, false>>>;
  return nullptr;
}

Tiles FindNarrowTilesOf(plan::Reduction::Kind kind, ElementType type) {
  if (type == ElementType::kU8 || type == ElementType::kS8) return OfIntegers<uint8_t>(kind, IsSigned(type));
  if (type == ElementType::kU16 || type == ElementType::kS16) return OfIntegers<uint16_t>(kind, IsSigned(type));
  if (type == ElementType::kBF16) return OfFloats<0x7f80>(kind);
  if (type == ElementType::kF16) return OfFloats<0x7c00>(kind);
  return nullptr;
}

// Half a vector of narrow floats, `stride` elements apart, as f32: strides of 2 to 4 read what lies between as well.
template <class N, class D>
HWY_INLINE hn::Vec<D> Widened(D df, const uint16_t* at, int64_t stride) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::Rebind<N, D> dn;
  [[maybe_unused]] hn::Vec<decltype(d16)> x, y, z, w;
  if (stride == 1) x = hn::LoadU(d16, at);
  else if (stride == 2) hn::LoadInterleaved2(d16, at, x, y);
  else if (stride == 3) hn::LoadInterleaved3(d16, at, x, y, z);
  else hn::LoadInterleaved4(d16, at, x, y, z, w);
  return WidenFloats(df, hn::BitCast(dn, x));
}

// Columns [c, n) of one row, as many as there are whole vectors for; of some stride more is read than is taken, which
// the last element must not be.
template <class N, class F, class D>
HWY_INLINE void FoldWidened(D df, const uint16_t* const* in, int64_t arrays, int64_t offset, int64_t stride,
                            std::size_t n, float* HWY_RESTRICT to, std::size_t& c) {
  const std::size_t lanes = hn::Lanes(df);
  for (; stride == 1 ? c + lanes <= n : c + lanes < n; c += lanes) {
    auto value = hn::LoadU(df, to + c);
    for (int64_t k = 0; k < arrays; ++k)
      value = F::Do(df, value, Widened<N>(df, in[k] + offset + static_cast<int64_t>(c) * stride, stride));
    hn::StoreU(value, df, to + c);
  }
}

// The last columns of a dense row at once, where loads have masks.
template <class N, class F>
HWY_INLINE void FoldWidenedEnd(const uint16_t* const* in, int64_t arrays, int64_t offset, std::size_t n,
                               float* HWY_RESTRICT to, std::size_t& c) {
  if constexpr (HWY_MAX_BYTES == 64 && !HWY_HAVE_SCALABLE) {
    if (c == n) return;
    const hn::ScalableTag<float> df;
    const hn::Rebind<uint16_t, decltype(df)> d16;
    const hn::Rebind<N, decltype(df)> dn;
    auto value = hn::LoadN(df, to + c, n - c);
    for (int64_t k = 0; k < arrays; ++k) {
      const auto bits = hn::LoadN(d16, in[k] + offset + static_cast<int64_t>(c), n - c);
      value = F::Do(df, value, WidenFloats(df, hn::BitCast(dn, bits)));
    }
    hn::StoreN(value, df, to + c, n - c);
    c = n;
  }
}

template <class N, class F>
void WideningTiles(const void* const* pointers, int64_t arrays, int64_t row_stride, int64_t column_stride, int64_t rows,
                   int64_t columns, void* accumulator, int64_t accumulator_stride) {
  const uint16_t* const* in = reinterpret_cast<const uint16_t* const*>(pointers);
  float* to = static_cast<float*>(accumulator);
  if (column_stride == 1 && row_stride == columns && accumulator_stride == columns) columns *= rows, rows = 1;
  const auto n = static_cast<std::size_t>(columns);
  const hn::CappedTag<float, 1> d1;
  for (int64_t r = 0; r < rows; ++r, to += accumulator_stride) {
    const int64_t at = r * row_stride;
    std::size_t c = 0;
    if (column_stride >= 1 && column_stride <= 4) {
      FoldWidened<N, F>(hn::ScalableTag<float>(), in, arrays, at, column_stride, n, to, c);
      if (column_stride == 1) FoldWidenedEnd<N, F>(in, arrays, at, n, to, c);
      if constexpr (HWY_MAX_BYTES > 32)
        FoldWidened<N, F>(hn::CappedTag<float, 8>(), in, arrays, at, column_stride, n, to, c);
      if constexpr (HWY_MAX_BYTES > 16)
        FoldWidened<N, F>(hn::CappedTag<float, 4>(), in, arrays, at, column_stride, n, to, c);
    }
    for (; c < n; ++c) {
      auto value = hn::LoadU(d1, to + c);
      for (int64_t k = 0; k < arrays; ++k)
        value = F::Do(d1, value, Widened<N>(d1, in[k] + at + static_cast<int64_t>(c) * column_stride, 1));
      hn::StoreU(value, d1, to + c);
    }
  }
}

template <class N>
Tiles WideningTilesOf(plan::Reduction::Kind kind) {
  if (kind == plan::Reduction::Kind::kSum) return &WideningTiles<N, SumOp<float>>;
  if (kind == plan::Reduction::Kind::kProduct) return &WideningTiles<N, ProductOp<float>>;
  return nullptr;
}
Tiles FindWideningTilesOf(plan::Reduction::Kind kind, ElementType type) {
  if (type == ElementType::kBF16) return WideningTilesOf<hwy::bfloat16_t>(kind);
  if (type == ElementType::kF16) return WideningTilesOf<hwy::float16_t>(kind);
  return nullptr;
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindNarrowTilesOf);
decltype(ReduceOps::tiles) FindNarrowTiles(plan::Reduction::Kind kind, ElementType type) {
  return HWY_DYNAMIC_DISPATCH(FindNarrowTilesOf)(kind, type);
}
HWY_EXPORT(FindWideningTilesOf);
decltype(ReduceOps::tiles) FindWideningTiles(plan::Reduction::Kind kind, ElementType type) {
  return HWY_DYNAMIC_DISPATCH(FindWideningTilesOf)(kind, type);
}
}  // namespace krafla::cpu
#endif
