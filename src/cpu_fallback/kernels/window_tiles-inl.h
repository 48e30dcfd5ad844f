// SPDX-License-Identifier: Apache-2.0
// The loops of ReduceOps::tiles: arrays with strides, folded into an accumulator with a stride.
#if defined(KRAFLA_CPU_WINDOW_TILES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef KRAFLA_CPU_WINDOW_TILES_INL
#undef KRAFLA_CPU_WINDOW_TILES_INL
#else
#define KRAFLA_CPU_WINDOW_TILES_INL
#endif

#include "cpu_fallback/kernels/reduce_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

// Columns in whole vectors.
template <class F, int kArrays, class T>
HWY_INLINE void FoldWhole(const T* const* arrays, int64_t offset, std::size_t n, T* HWY_RESTRICT to) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const T* in[kArrays];
  for (int k = 0; k < kArrays; ++k) in[k] = arrays[k] + offset;
  for (std::size_t c = 0; c + lanes <= n; c += lanes) {
    auto value = hn::LoadU(d, to + c);
    for (int k = 0; k < kArrays; ++k) value = F::Do(d, value, hn::LoadU(d, in[k] + c));
    hn::StoreU(value, d, to + c);
  }
}
template <class F, class T>
HWY_INLINE void FoldDense(const T* const* arrays, int64_t count, int64_t offset, std::size_t n, T* HWY_RESTRICT to) {
  const hn::ScalableTag<T> d;
  const std::size_t left = n % hn::Lanes(d), whole = n - left;
  int64_t k = 0;
  if (whole > 0) {
    for (; k + 4 <= count; k += 4) FoldWhole<F, 4>(arrays + k, offset, whole, to);
    for (; k < count; ++k) FoldWhole<F, 1>(arrays + k, offset, whole, to);
  }
  if (left == 0) return;
  const auto at = static_cast<int64_t>(whole) + offset;
  const Tail tail(d, left);
  auto value = tail.Load(d, to + whole);
  for (k = 0; k < count; ++k) value = F::Do(d, value, tail.Load(d, arrays[k] + at));
  tail.Store(value, d, to + whole);
}

// Elements 2 to 4 apart from number c on: loads of elements side by side, of which the first one is taken. The last
// ones' others may lie behind the array.
template <class F, class D, class T = hn::TFromD<D>>
HWY_INLINE void FoldEveryNth(D d, const T* const* arrays, int64_t count, int64_t offset, int64_t stride, std::size_t n,
                             T* HWY_RESTRICT to, std::size_t& c) {
  const std::size_t lanes = hn::Lanes(d);
  for (; c + lanes < n; c += lanes) {
    auto value = hn::LoadU(d, to + c);
    for (int64_t k = 0; k < count; ++k) {
      const T* at = arrays[k] + offset + stride * static_cast<int64_t>(c);
      [[maybe_unused]] hn::Vec<D> x, y, z, w;
      if (stride == 2) hn::LoadInterleaved2(d, at, x, y);
      else if (stride == 3) hn::LoadInterleaved3(d, at, x, y, z);
      else hn::LoadInterleaved4(d, at, x, y, z, w);
      value = F::Do(d, value, x);
    }
    hn::StoreU(value, d, to + c);
  }
}

// Elements further apart, put side by side first: of most operations a vector takes as long as one number.
template <class F, class T>
HWY_INLINE void FoldByLines(const T* const* arrays, int64_t count, int64_t offset, int64_t stride, std::size_t n,
                            T* HWY_RESTRICT to) {
  constexpr std::size_t kLine = 256;
  HWY_ALIGN T line[kLine];
  const T* const lines[] = {line};
  for (std::size_t c = 0; c < n; c += kLine) {
    const std::size_t now = n - c < kLine ? n - c : kLine;
    for (int64_t k = 0; k < count; ++k) {
      const T* at = arrays[k] + offset + stride * static_cast<int64_t>(c);
      for (std::size_t i = 0; i < now; ++i, at += stride) line[i] = *at;
      FoldDense<F>(lines, 1, 0, now, to + c);
    }
  }
}

template <class T, class F>
HWY_INLINE void FoldStrided(const T* const* arrays, int64_t count, int64_t offset, int64_t stride, std::size_t n,
                            T* HWY_RESTRICT to) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  constexpr std::size_t kFewColumns = 8;
  std::size_t c = 0;
  if ((stride > 4 || stride < 0) && n >= kFewColumns) return FoldByLines<F>(arrays, count, offset, stride, n, to);
  if (stride >= 2 && stride <= 4) {
    FoldEveryNth<F>(d, arrays, count, offset, stride, n, to, c);
    // What is left of a row in shorter vectors, where there are any.
    if constexpr (HWY_MAX_BYTES > 32)
      FoldEveryNth<F>(hn::CappedTag<T, 32 / sizeof(T)>(), arrays, count, offset, stride, n, to, c);
    if constexpr (HWY_MAX_BYTES > 16)
      FoldEveryNth<F>(hn::CappedTag<T, 16 / sizeof(T)>(), arrays, count, offset, stride, n, to, c);
  } else if (stride == 0 && count == 1) {
    const auto constant = hn::Set(d, arrays[0][offset]);
    for (; c + lanes <= n; c += lanes) hn::StoreU(F::Do(d, hn::LoadU(d, to + c), constant), d, to + c);
  }
  for (; c < n; ++c) {
    T value = to[c];
    for (int64_t k = 0; k < count; ++k)
      value = Combine<T, F>(value, arrays[k][offset + static_cast<int64_t>(c) * stride]);
    to[c] = value;
  }
}

template <class T, class F>
void ReduceTiles(const void* const* in_pointers, int64_t arrays, int64_t row_stride, int64_t column_stride,
                 int64_t rows, int64_t columns, void* accumulator, int64_t accumulator_stride) {
  const T* const* in = reinterpret_cast<const T* const*>(in_pointers);
  T* to = static_cast<T*>(accumulator);
  if (column_stride == 1 && row_stride == columns && accumulator_stride == columns) columns *= rows, rows = 1;
  const std::size_t n = static_cast<std::size_t>(columns);
  for (int64_t r = 0; r < rows; ++r, to += accumulator_stride) {
    const int64_t at = r * row_stride;
    if (column_stride == 1) FoldDense<F>(in, arrays, at, n, to);
    else FoldStrided<T, F>(in, arrays, at, column_stride, n, to);
  }
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
