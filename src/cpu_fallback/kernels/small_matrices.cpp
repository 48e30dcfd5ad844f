// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/small_matrices.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/small_matrices.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A number in each lane.
template <class V>
struct RealLanes {
  V re;
};
template <class V>
struct ComplexLanes {
  V re, im;
};

template <class V>
HWY_INLINE RealLanes<V> ConjIf(bool, RealLanes<V> a) {
  return a;
}
template <class V>
HWY_INLINE ComplexLanes<V> ConjIf(bool conjugate, ComplexLanes<V> a) {
  return {a.re, conjugate ? hn::Neg(a.im) : a.im};
}
// c - a b
template <class V>
HWY_INLINE RealLanes<V> Less(RealLanes<V> a, RealLanes<V> b, RealLanes<V> c) {
  return {hn::NegMulAdd(a.re, b.re, c.re)};
}
template <class V>
HWY_INLINE ComplexLanes<V> Less(ComplexLanes<V> a, ComplexLanes<V> b, ComplexLanes<V> c) {
  return {hn::NegMulAdd(a.re, b.re, hn::MulAdd(a.im, b.im, c.re)),
          hn::NegMulAdd(a.re, b.im, hn::NegMulAdd(a.im, b.re, c.im))};
}
template <class V>
HWY_INLINE V LessSquare(RealLanes<V> a, V c) {
  return hn::NegMulAdd(a.re, a.re, c);
}
template <class V>
HWY_INLINE V LessSquare(ComplexLanes<V> a, V c) {
  return hn::NegMulAdd(a.re, a.re, hn::NegMulAdd(a.im, a.im, c));
}
template <class V>
HWY_INLINE RealLanes<V> OverReal(RealLanes<V> a, V b) {
  return {hn::Div(a.re, b)};
}
template <class V>
HWY_INLINE ComplexLanes<V> OverReal(ComplexLanes<V> a, V b) {
  return {hn::Div(a.re, b), hn::Div(a.im, b)};
}
template <class V>
HWY_INLINE RealLanes<V> Over(RealLanes<V> a, RealLanes<V> b) {
  return {hn::Div(a.re, b.re)};
}
// Smith's method: no overflow where the quotient has none.
template <class V>
HWY_INLINE ComplexLanes<V> Over(ComplexLanes<V> a, ComplexLanes<V> b) {
  const auto real = hn::Ge(hn::Abs(b.re), hn::Abs(b.im));
  const V large = hn::IfThenElse(real, b.re, b.im), small = hn::IfThenElse(real, b.im, b.re);
  const V x = hn::IfThenElse(real, a.re, a.im), y = hn::IfThenElse(real, a.im, a.re);
  const V ratio = hn::Div(small, large), divisor = hn::MulAdd(small, ratio, large);
  const V im = hn::Div(hn::NegMulAdd(x, ratio, y), divisor);
  return {hn::Div(hn::MulAdd(y, ratio, x), divisor), hn::IfThenElse(real, im, hn::Neg(im))};
}
template <class V>
HWY_INLINE V PivotSize(RealLanes<V> a) {
  return hn::Abs(a.re);
}
template <class V>
HWY_INLINE V PivotSize(ComplexLanes<V> a) {
  return hn::Add(hn::Abs(a.re), hn::Abs(a.im));
}
template <class M, class V>
HWY_INLINE RealLanes<V> Choose(M mask, RealLanes<V> a, RealLanes<V> b) {
  return {hn::IfThenElse(mask, a.re, b.re)};
}
template <class M, class V>
HWY_INLINE ComplexLanes<V> Choose(M mask, ComplexLanes<V> a, ComplexLanes<V> b) {
  return {hn::IfThenElse(mask, a.re, b.re), hn::IfThenElse(mask, a.im, b.im)};
}

// One matrix in each lane: part e of its numbers lies at parts[e * lanes].
template <class T, bool kComplex>
struct LaneMatrices {
  using D = hn::CappedTag<T, 64 / sizeof(T)>;
  using V = hn::Vec<D>;
  using Number = std::conditional_t<kComplex, ComplexLanes<V>, RealLanes<V>>;
  static constexpr int64_t kParts = kComplex ? 2 : 1;
  static HWY_INLINE int64_t Lanes() { return static_cast<int64_t>(hn::Lanes(D())); }
  static HWY_INLINE Number Of(V re) {
    if constexpr (kComplex) return {re, hn::Zero(D())};
    else return {re};
  }

  // `size` numbers of each matrix, from matrix `first` on. Lanes past `count` repeat the last matrix.
  HWY_INLINE void Read(const T* from, int64_t first, int64_t size, int64_t count) {
    const int64_t lanes = Lanes(), reals = size * kParts;
    for (int64_t w = 0; w < lanes; ++w) {
      const T* matrix = from + (first + std::min(w, count - 1)) * reals;
      for (int64_t e = 0; e < reals; ++e) parts[e * lanes + w] = matrix[e];
    }
  }
  HWY_INLINE void Write(T* to, int64_t first, int64_t size, int64_t count) const {
    const int64_t lanes = Lanes(), reals = size * kParts;
    for (int64_t w = 0; w < count; ++w)
      for (int64_t e = 0; e < reals; ++e) to[(first + w) * reals + e] = parts[e * lanes + w];
  }
  HWY_INLINE Number Get(int64_t e) const {
    const T* at = parts + e * kParts * Lanes();
    if constexpr (kComplex) return {hn::Load(D(), at), hn::Load(D(), at + Lanes())};
    else return {hn::Load(D(), at)};
  }
  HWY_INLINE void Set(int64_t e, Number v) {
    T* at = parts + e * kParts * Lanes();
    hn::Store(v.re, D(), at);
    if constexpr (kComplex) hn::Store(v.im, D(), at + Lanes());
  }

  alignas(64) T parts[kMostSmallNumbers * (64 / sizeof(T))];
};

template <bool kComplex, class T>
void CholeskyHere(const T* a, T* out, int64_t n, bool lower, int64_t count) {
  using M = LaneMatrices<T, kComplex>;
  const typename M::D d;
  M m;
  const int64_t lanes = M::Lanes(), size = n * n;
  // The lower factor, or its conjugate mirrored.
  const int64_t down = lower ? n : 1, across = lower ? 1 : n;
  for (int64_t first = 0; first < count; first += lanes) {
    const int64_t now = std::min(lanes, count - first);
    m.Read(a, first, size, now);
    auto good = hn::Eq(hn::Zero(d), hn::Zero(d));
    for (int64_t c = 0; c < n; ++c) {
      auto diagonal = m.Get(c * (down + across)).re;
      for (int64_t k = 0; k < c; ++k) diagonal = LessSquare(m.Get(c * down + k * across), diagonal);
      good = hn::And(good, hn::Gt(diagonal, hn::Zero(d)));
      const auto root = hn::Sqrt(diagonal);
      m.Set(c * (down + across), M::Of(root));
      for (int64_t r = c + 1; r < n; ++r) {
        auto sum = m.Get(r * down + c * across);
        // In the mirror both factors are conjugates, and so is the sum.
        for (int64_t k = 0; k < c; ++k)
          sum = Less(m.Get(r * down + k * across), ConjIf(true, m.Get(c * down + k * across)), sum);
        m.Set(r * down + c * across, OverReal(sum, root));
        m.Set(c * down + r * across, M::Of(hn::Zero(d)));
      }
    }
    if (!hn::AllTrue(d, good)) {
      const auto nan = M::Of(hn::Set(d, std::numeric_limits<T>::quiet_NaN()));
      for (int64_t r = 0; r < n; ++r)
        for (int64_t c = 0; c <= r; ++c) m.Set(r * down + c * across, Choose(good, m.Get(r * down + c * across), nan));
    }
    m.Write(out, first, size, now);
  }
}

template <bool kComplex, class T>
void LuHere(const T* a, T* lu, int32_t* pivots, int32_t* permutation, int64_t rows, int64_t columns, int64_t count) {
  using M = LaneMatrices<T, kComplex>;
  const typename M::D d;
  M m;
  const int64_t lanes = M::Lanes(), size = rows * columns, least = std::min(rows, columns);
  alignas(64) T chosen[64 / sizeof(T)];
  for (int64_t first = 0; first < count; first += lanes) {
    const int64_t now = std::min(lanes, count - first);
    m.Read(a, first, size, now);
    for (int64_t w = 0; w < now; ++w)
      for (int64_t r = 0; r < rows; ++r) permutation[(first + w) * rows + r] = static_cast<int32_t>(r);
    for (int64_t k = 0; k < least; ++k) {
      auto largest = PivotSize(m.Get(k * columns + k));
      auto pivot = hn::Set(d, static_cast<T>(k));
      for (int64_t r = k + 1; r < rows; ++r) {
        const auto here = PivotSize(m.Get(r * columns + k));
        const auto larger = hn::Gt(here, largest);
        largest = hn::IfThenElse(larger, here, largest);
        pivot = hn::IfThenElse(larger, hn::Set(d, static_cast<T>(r)), pivot);
      }
      for (int64_t r = k + 1; r < rows; ++r) {
        const auto exchange = hn::Eq(pivot, hn::Set(d, static_cast<T>(r)));
        if (hn::AllFalse(d, exchange)) continue;
        for (int64_t c = 0; c < columns; ++c) {
          const auto x = m.Get(k * columns + c), y = m.Get(r * columns + c);
          m.Set(k * columns + c, Choose(exchange, y, x));
          m.Set(r * columns + c, Choose(exchange, x, y));
        }
      }
      hn::Store(pivot, d, chosen);
      for (int64_t w = 0; w < now; ++w) {
        const auto row = static_cast<int32_t>(chosen[w]);
        pivots[(first + w) * least + k] = row;
        int32_t* order = permutation + (first + w) * rows;
        std::swap(order[k], order[row]);
      }
      // A column of zeros stays.
      const auto top = m.Get(k * columns + k);
      const auto diagonal = Choose(hn::Eq(PivotSize(top), hn::Zero(d)), M::Of(hn::Set(d, T(1))), top);
      for (int64_t r = k + 1; r < rows; ++r) {
        const auto quotient = Over(m.Get(r * columns + k), diagonal);
        m.Set(r * columns + k, quotient);
        for (int64_t c = k + 1; c < columns; ++c)
          m.Set(r * columns + c, Less(quotient, m.Get(k * columns + c), m.Get(r * columns + c)));
      }
    }
    m.Write(lu, first, size, now);
  }
}

template <bool kComplex, class T>
void SolveHere(const SmallSystem& s, const T* a, const T* b, T* x, int64_t count) {
  using M = LaneMatrices<T, kComplex>;
  M m, y;
  const int64_t lanes = M::Lanes(), n = s.n, sides = s.sides;
  const int64_t down = s.turned ? 1 : n, across = s.turned ? n : 1;
  const int64_t next_row = s.by_rows ? sides : 1, next_side = s.by_rows ? 1 : n;
  for (int64_t first = 0; first < count; first += lanes) {
    const int64_t now = std::min(lanes, count - first);
    m.Read(a, first, n * n, now);
    y.Read(b, first, n * sides, now);
    for (int64_t step = 0; step < n; ++step) {
      const int64_t row = s.forward ? step : n - 1 - step;
      const int64_t begin = s.forward ? 0 : row + 1, end = s.forward ? row : n;
      const auto diagonal = ConjIf(s.conjugate, m.Get(row * (down + across)));
      for (int64_t side = 0; side < sides; ++side) {
        auto sum = y.Get(row * next_row + side * next_side);
        for (int64_t k = begin; k < end; ++k)
          sum = Less(ConjIf(s.conjugate, m.Get(row * down + k * across)), y.Get(k * next_row + side * next_side), sum);
        y.Set(row * next_row + side * next_side, s.unit ? sum : Over(sum, diagonal));
      }
    }
    y.Write(x, first, n * sides, now);
  }
}

template <class T>
void Cholesky(bool complex, const T* a, T* out, int64_t n, bool lower, int64_t count) {
  if (complex) CholeskyHere<true>(a, out, n, lower, count);
  else CholeskyHere<false>(a, out, n, lower, count);
}
template <class T>
void Lu(bool complex, const T* a, T* lu, int32_t* pivots, int32_t* permutation, int64_t rows, int64_t columns,
        int64_t count) {
  if (complex) LuHere<true>(a, lu, pivots, permutation, rows, columns, count);
  else LuHere<false>(a, lu, pivots, permutation, rows, columns, count);
}
template <class T>
void Solve(bool complex, const SmallSystem& s, const T* a, const T* b, T* x, int64_t count) {
  if (complex) SolveHere<true>(s, a, b, x, count);
  else SolveHere<false>(s, a, b, x, count);
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {

template <class T>
void CholeskyOfSmall(bool complex, const T* a, T* out, int64_t n, bool lower, int64_t count) {
  HWY_EXPORT_T(Kernel, Cholesky<T>);
  HWY_DYNAMIC_DISPATCH_T(Kernel)(complex, a, out, n, lower, count);
}
template <class T>
void LuOfSmall(bool complex, const T* a, T* lu, int32_t* pivots, int32_t* permutation, int64_t rows, int64_t columns,
               int64_t count) {
  HWY_EXPORT_T(Kernel, Lu<T>);
  HWY_DYNAMIC_DISPATCH_T(Kernel)(complex, a, lu, pivots, permutation, rows, columns, count);
}
template <class T>
void SolveSmall(bool complex, const SmallSystem& s, const T* a, const T* b, T* x, int64_t count) {
  HWY_EXPORT_T(Kernel, Solve<T>);
  HWY_DYNAMIC_DISPATCH_T(Kernel)(complex, s, a, b, x, count);
}

#define KRAFLA_INSTANTIATE(T)                                                                    \
  template void CholeskyOfSmall<T>(bool, const T*, T*, int64_t, bool, int64_t);                  \
  template void LuOfSmall<T>(bool, const T*, T*, int32_t*, int32_t*, int64_t, int64_t, int64_t); \
  template void SolveSmall<T>(bool, const SmallSystem&, const T*, const T*, T*, int64_t);
KRAFLA_INSTANTIATE(float)
KRAFLA_INSTANTIATE(double)
#undef KRAFLA_INSTANTIATE

}  // namespace krafla::cpu
#endif
