// SPDX-License-Identifier: Apache-2.0
// The loops of plain reductions along rows: whole vectors, halves of a vector's lanes onto halves, what is left of a
// row in shorter vectors.
#if defined(KRAFLA_CPU_REDUCE_ROWS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef KRAFLA_CPU_REDUCE_ROWS_INL
#undef KRAFLA_CPU_REDUCE_ROWS_INL
#else
#define KRAFLA_CPU_REDUCE_ROWS_INL
#endif

#include <bit>

#include "cpu_fallback/kernels/reduce_loops-inl.h"
#include "cpu_fallback/kernels/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {

// sum (op) a[0] (op) ... a[n - 1], for n below twice the lanes: in vectors of half the length, a quarter, ...
template <class F, class D>
HWY_INLINE hn::TFromD<D> FoldShort(D d, const hn::TFromD<D>* a, std::size_t n, hn::TFromD<D> sum) {
  using T = hn::TFromD<D>;
  if (n >= hn::Lanes(d)) {
    sum = Combine<T, F>(sum, FoldLanes<F>(d, EnterAt<F>(d, a)));
    a += hn::Lanes(d), n -= hn::Lanes(d);
  }
  if constexpr (HWY_MAX_LANES_D(D) > 1) sum = FoldShort<F>(hn::Half<D>(), a, n, sum);
  return sum;
}

// Of *extremum and n elements, at least a vector, where their bounds tell it. Elements may be looked at twice.
template <class F, class D>
HWY_INLINE bool ExtremumByBounds(D d, const hn::TFromD<D>* a, std::size_t n, hn::TFromD<D>* extremum) {
  using B = typename F::template Bounds<D>;
  const std::size_t lanes = hn::Lanes(d);
  B b0 = F::BoundsOf(d, hn::LoadU(d, a));
  std::size_t i = lanes;
  if (n >= 8 * lanes) {
    B b1 = F::BoundsOf(d, hn::LoadU(d, a + lanes)), b2 = F::BoundsOf(d, hn::LoadU(d, a + 2 * lanes)),
      b3 = F::BoundsOf(d, hn::LoadU(d, a + 3 * lanes));
    for (i = 4 * lanes; i + 4 * lanes <= n; i += 4 * lanes) {
      b0.Add(d, hn::LoadU(d, a + i));
      b1.Add(d, hn::LoadU(d, a + i + lanes));
      b2.Add(d, hn::LoadU(d, a + i + 2 * lanes));
      b3.Add(d, hn::LoadU(d, a + i + 3 * lanes));
    }
    b0.Add(d, b1), b2.Add(d, b3), b0.Add(d, b2);
  }
  for (; i + lanes <= n; i += lanes) b0.Add(d, hn::LoadU(d, a + i));
  if (i < n) b0.Add(d, hn::LoadU(d, a + n - lanes));
  b0.Add(d, hn::Set(d, *extremum));
  if (!b0.HaveNoNan(d)) return false;
  using T = hn::TFromD<D>;
  const hn::RebindToUnsigned<D> du;
  if constexpr (F::kHasFloatBounds)
    *extremum = std::bit_cast<T>(FoldLanes<typename F::NumbersOp>(hn::RebindToFloat<D>(), b0.extremum));
  else if constexpr (F::kIsMaximum) *extremum = FoldLanes<MaxOp<T>>(d, b0.largest);
  else *extremum = static_cast<T>(FoldLanes<MaxOp<hn::TFromD<decltype(du)>>>(du, b0.largest_unsigned));
  return F::IsTold(*extremum);
}

// The lanes of four vectors folded as FoldLanes does each: halves of two vectors side by side, so that one operation
// does what four would do. Of vectors of 64 bytes, which have four blocks.
template <class F, class D>
HWY_INLINE void FoldFour(D d, const hn::Vec<D>* v, hn::TFromD<D>* HWY_RESTRICT out) {
  using V = hn::Vec<D>;
  using T = hn::TFromD<D>;
  const auto halves = [&](V a, V b)
                          HWY_ATTR { return F::Do(d, hn::ConcatLowerLower(d, b, a), hn::ConcatUpperUpper(d, b, a)); };
  const V ab = halves(v[0], v[1]), ce = halves(v[2], v[3]);
  // Blocks of a, c, b, e.
  V all =
      F::Do(d, hn::OddEvenBlocks(hn::SwapAdjacentBlocks(ce), ab), hn::OddEvenBlocks(ce, hn::SwapAdjacentBlocks(ab)));
  if constexpr (sizeof(T) == 4) {
    all = F::Do(d, all, hn::Shuffle1032(all));
    all = F::Do(d, all, hn::Shuffle2301(all));
  } else {
    all = F::Do(d, all, hn::Shuffle01(all));
  }
  HWY_ALIGN T lanes[HWY_MAX_LANES_D(D)];
  hn::Store(all, d, lanes);
  constexpr std::size_t kBlock = 16 / sizeof(T);
  out[0] = lanes[0], out[1] = lanes[2 * kBlock], out[2] = lanes[kBlock], out[3] = lanes[3 * kBlock];
}

// As ReduceRow does each of four rows of at least one vector and fewer than eight.
template <class T, class F>
HWY_INLINE void ReduceFourRows(const T* a, std::size_t n, T* to) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> d1;
  const std::size_t lanes = hn::Lanes(d), whole = n / lanes * lanes;
  hn::Vec<decltype(d)> total[4];
  KRAFLA_UNROLL(4)
  for (std::size_t r = 0; r < 4; ++r) total[r] = EnterAt<F>(d, a + r * n);
  for (std::size_t i = lanes; i < whole; i += lanes) {
    KRAFLA_UNROLL(4)
    for (std::size_t r = 0; r < 4; ++r) total[r] = F::Do(d, total[r], EnterAt<F>(d, a + r * n + i));
  }
  T folded[4];
  FoldFour<F>(d, total, folded);
  for (std::size_t r = 0; r < 4; ++r) {
    T sum = Combine<T, F>(hn::GetLane(EnterAt<F>(d1, to + r)), folded[r]);
    sum = FoldShort<F>(d, a + r * n + whole, n - whole, sum);
    to[r] = hn::GetLane(F::Leave(d1, hn::Set(d1, sum)));
  }
}

template <class T, class F>
HWY_INLINE void ReduceRow(const T* a, std::size_t n, T* to) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> d1;
  using V = hn::Vec<decltype(d)>;
  const std::size_t lanes = hn::Lanes(d);
  if constexpr (F::kHasBounds) {
    T extremum = *to;
    if (n >= lanes && ExtremumByBounds<F>(d, a, n, &extremum)) {
      *to = extremum;
      return;
    }
  }
  T sum = hn::GetLane(EnterAt<F>(d1, to));
  std::size_t i = 0;
  if (n >= 2 * lanes) {
    V total = EnterAt<F>(d, a);
    i = lanes;
    if (n >= 8 * lanes) {
      V s0 = total, s1 = EnterAt<F>(d, a + lanes), s2 = EnterAt<F>(d, a + 2 * lanes), s3 = EnterAt<F>(d, a + 3 * lanes);
      for (i = 4 * lanes; i + 4 * lanes <= n; i += 4 * lanes) {
        s0 = F::Do(d, s0, EnterAt<F>(d, a + i));
        s1 = F::Do(d, s1, EnterAt<F>(d, a + i + lanes));
        s2 = F::Do(d, s2, EnterAt<F>(d, a + i + 2 * lanes));
        s3 = F::Do(d, s3, EnterAt<F>(d, a + i + 3 * lanes));
      }
      total = F::Do(d, F::Do(d, s0, s1), F::Do(d, s2, s3));
    }
    for (; i + lanes <= n; i += lanes) total = F::Do(d, total, EnterAt<F>(d, a + i));
    sum = Combine<T, F>(sum, FoldLanes<F>(d, total));
  }
  sum = FoldShort<F>(d, a + i, n - i, sum);
  *to = hn::GetLane(F::Leave(d1, hn::Set(d1, sum)));
}

// Extrema of four rows of at least one vector and fewer than eight, where their bounds tell all of them.
template <class T, class F>
HWY_INLINE bool ExtremaOfFourRows(const T* a, std::size_t n, T* to) {
  const hn::ScalableTag<T> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  using Unsigned = hn::TFromD<decltype(du)>;
  const std::size_t lanes = hn::Lanes(d);
  typename F::template Bounds<hn::ScalableTag<T>> bounds[4];
  KRAFLA_UNROLL(4)
  for (std::size_t r = 0; r < 4; ++r) bounds[r] = F::BoundsOf(d, hn::LoadU(d, a + r * n));
  const auto add = [&](std::size_t i) HWY_ATTR {
    KRAFLA_UNROLL(4)
    for (std::size_t r = 0; r < 4; ++r) bounds[r].Add(d, hn::LoadU(d, a + r * n + i));
  };
  std::size_t i = lanes;
  for (; i + lanes <= n; i += lanes) add(i);
  // The last ones together with some that were looked at already.
  if (i < n) add(n - lanes);
  // What tells that there is no NaN is looked at for all rows together.
  auto all = bounds[0];
  KRAFLA_UNROLL(4)
  for (std::size_t r = 1; r < 4; ++r) all.Add(d, bounds[r]);
  bool are_told = all.HaveNoNan(d);
  T extrema[4];
  if constexpr (F::kIsMaximum) {
    hn::Vec<decltype(d)> largest[4];
    KRAFLA_UNROLL(4)
    for (std::size_t r = 0; r < 4; ++r) largest[r] = bounds[r].largest;
    FoldFour<MaxOp<T>>(d, largest, extrema);
    for (std::size_t r = 0; r < 4; ++r) extrema[r] = std::max(extrema[r], to[r]);
  } else {
    hn::Vec<decltype(du)> largest[4];
    KRAFLA_UNROLL(4)
    for (std::size_t r = 0; r < 4; ++r) largest[r] = bounds[r].largest_unsigned;
    Unsigned most[4];
    FoldFour<MaxOp<Unsigned>>(du, largest, most);
    for (std::size_t r = 0; r < 4; ++r) extrema[r] = static_cast<T>(std::max(most[r], static_cast<Unsigned>(to[r])));
  }
  for (std::size_t r = 0; r < 4; ++r)
    are_told = are_told && F::HasNoNan(to[r], static_cast<Unsigned>(to[r])) && F::IsTold(extrema[r]);
  if (are_told) std::copy_n(extrema, 4, to);
  return are_told;
}

// accumulator[r] = accumulator[r] (op) in[r, 0] (op) ... in[r, n - 1].
template <class T, class F>
void ReduceRows(const void* in, int64_t rows, int64_t count, void* accumulator) {
  const std::size_t n = static_cast<std::size_t>(count);
  const T* a = static_cast<const T*>(in);
  T* to = static_cast<T*>(accumulator);
  int64_t r = 0;
#if HWY_MAX_BYTES == 64 && !HWY_HAVE_SCALABLE
  // Of short rows most of the work is what comes behind a row's last vector.
  constexpr std::size_t kLanes = 64 / sizeof(T);
  if constexpr (sizeof(T) >= 4) {
    if (n >= kLanes && n < 8 * kLanes) {
      for (; r + 4 <= rows; r += 4, a += 4 * n) {
        if constexpr (F::kHasBounds) {
          if (!ExtremaOfFourRows<T, F>(a, n, to + r))
            for (std::size_t k = 0; k < 4; ++k) ReduceRow<T, F>(a + k * n, n, to + r + k);
        } else {
          ReduceFourRows<T, F>(a, n, to + r);
        }
      }
    }
  }
#endif
  for (; r < rows; ++r, a += n) ReduceRow<T, F>(a, n, to + r);
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
