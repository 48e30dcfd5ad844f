// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/small_matrices.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/small_matrices.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One matrix in each lane: number e of all of them lies at numbers[e * lanes].
template <class T>
struct LaneMatrices {
  using D = hn::CappedTag<T, 64 / sizeof(T)>;
  using V = hn::Vec<D>;
  static HWY_INLINE int64_t Lanes() { return static_cast<int64_t>(hn::Lanes(D())); }

  // Lanes past `count` repeat the last matrix.
  HWY_INLINE void Read(const T* from, int64_t size, int64_t count) {
    const int64_t lanes = Lanes();
    for (int64_t w = 0; w < lanes; ++w) {
      const T* matrix = from + std::min(w, count - 1) * size;
      for (int64_t e = 0; e < size; ++e) numbers[e * lanes + w] = matrix[e];
    }
  }
  HWY_INLINE void Write(T* to, int64_t size, int64_t count) const {
    const int64_t lanes = Lanes();
    for (int64_t w = 0; w < count; ++w)
      for (int64_t e = 0; e < size; ++e) to[w * size + e] = numbers[e * lanes + w];
  }
  HWY_INLINE V Get(int64_t e) const { return hn::Load(D(), numbers + e * Lanes()); }
  HWY_INLINE void Set(int64_t e, V v) { hn::Store(v, D(), numbers + e * Lanes()); }

  alignas(64) T numbers[kMostSmallNumbers * (64 / sizeof(T))];
};

template <class T>
void CholeskyHere(const T* a, T* out, int64_t n, bool lower, int64_t count) {
  using M = LaneMatrices<T>;
  const typename M::D d;
  M m;
  const int64_t lanes = M::Lanes(), size = n * n;
  // The lower factor, where `lower` or mirrored.
  const int64_t down = lower ? n : 1, across = lower ? 1 : n;
  for (int64_t first = 0; first < count; first += lanes) {
    const int64_t now = std::min(lanes, count - first);
    m.Read(a + first * size, size, now);
    auto good = hn::Eq(hn::Zero(d), hn::Zero(d));
    for (int64_t c = 0; c < n; ++c) {
      auto diagonal = m.Get(c * (down + across));
      for (int64_t k = 0; k < c; ++k) {
        const auto v = m.Get(c * down + k * across);
        diagonal = hn::NegMulAdd(v, v, diagonal);
      }
      good = hn::And(good, hn::Gt(diagonal, hn::Zero(d)));
      const auto root = hn::Sqrt(diagonal);
      m.Set(c * (down + across), root);
      for (int64_t r = c + 1; r < n; ++r) {
        auto sum = m.Get(r * down + c * across);
        for (int64_t k = 0; k < c; ++k)
          sum = hn::NegMulAdd(m.Get(r * down + k * across), m.Get(c * down + k * across), sum);
        m.Set(r * down + c * across, hn::Div(sum, root));
        m.Set(c * down + r * across, hn::Zero(d));
      }
    }
    if (!hn::AllTrue(d, good)) {
      const auto nan = hn::Set(d, std::numeric_limits<T>::quiet_NaN());
      for (int64_t r = 0; r < n; ++r)
        for (int64_t c = 0; c <= r; ++c)
          m.Set(r * down + c * across, hn::IfThenElse(good, m.Get(r * down + c * across), nan));
    }
    m.Write(out + first * size, size, now);
  }
}

template <class T>
void LuHere(const T* a, T* lu, int32_t* pivots, int32_t* permutation, int64_t rows, int64_t columns, int64_t count) {
  using M = LaneMatrices<T>;
  const typename M::D d;
  M m;
  const int64_t lanes = M::Lanes(), size = rows * columns, least = std::min(rows, columns);
  alignas(64) T chosen[64 / sizeof(T)];
  for (int64_t first = 0; first < count; first += lanes) {
    const int64_t now = std::min(lanes, count - first);
    m.Read(a + first * size, size, now);
    for (int64_t w = 0; w < now; ++w)
      for (int64_t r = 0; r < rows; ++r) permutation[(first + w) * rows + r] = static_cast<int32_t>(r);
    for (int64_t k = 0; k < least; ++k) {
      auto largest = hn::Abs(m.Get(k * columns + k));
      auto pivot = hn::Set(d, static_cast<T>(k));
      for (int64_t r = k + 1; r < rows; ++r) {
        const auto here = hn::Abs(m.Get(r * columns + k));
        const auto larger = hn::Gt(here, largest);
        largest = hn::IfThenElse(larger, here, largest);
        pivot = hn::IfThenElse(larger, hn::Set(d, static_cast<T>(r)), pivot);
      }
      for (int64_t r = k + 1; r < rows; ++r) {
        const auto exchange = hn::Eq(pivot, hn::Set(d, static_cast<T>(r)));
        if (hn::AllFalse(d, exchange)) continue;
        for (int64_t c = 0; c < columns; ++c) {
          const auto x = m.Get(k * columns + c), y = m.Get(r * columns + c);
          m.Set(k * columns + c, hn::IfThenElse(exchange, y, x));
          m.Set(r * columns + c, hn::IfThenElse(exchange, x, y));
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
      const auto diagonal = hn::IfThenElse(hn::Eq(top, hn::Zero(d)), hn::Set(d, T(1)), top);
      for (int64_t r = k + 1; r < rows; ++r) {
        const auto quotient = hn::Div(m.Get(r * columns + k), diagonal);
        m.Set(r * columns + k, quotient);
        for (int64_t c = k + 1; c < columns; ++c)
          m.Set(r * columns + c, hn::NegMulAdd(quotient, m.Get(k * columns + c), m.Get(r * columns + c)));
      }
    }
    m.Write(lu + first * size, size, now);
  }
}

template <class T>
void SolveHere(const SmallSystem& s, const T* a, const T* b, T* x, int64_t count) {
  using M = LaneMatrices<T>;
  M m, y;
  const int64_t lanes = M::Lanes(), n = s.n, sides = s.sides;
  const int64_t down = s.turned ? 1 : n, across = s.turned ? n : 1;
  const int64_t next_row = s.by_rows ? sides : 1, next_side = s.by_rows ? 1 : n;
  for (int64_t first = 0; first < count; first += lanes) {
    const int64_t now = std::min(lanes, count - first);
    m.Read(a + first * n * n, n * n, now);
    y.Read(b + first * n * sides, n * sides, now);
    for (int64_t step = 0; step < n; ++step) {
      const int64_t row = s.forward ? step : n - 1 - step;
      const int64_t begin = s.forward ? 0 : row + 1, end = s.forward ? row : n;
      const auto diagonal = m.Get(row * (down + across));
      for (int64_t side = 0; side < sides; ++side) {
        auto sum = y.Get(row * next_row + side * next_side);
        for (int64_t k = begin; k < end; ++k)
          sum = hn::NegMulAdd(m.Get(row * down + k * across), y.Get(k * next_row + side * next_side), sum);
        y.Set(row * next_row + side * next_side, s.unit ? sum : hn::Div(sum, diagonal));
      }
    }
    y.Write(x + first * n * sides, n * sides, now);
  }
}

void CholeskyFloats(const float* a, float* out, int64_t n, bool lower, int64_t count) { CholeskyHere(a, out, n, lower, count); }
void CholeskyDoubles(const double* a, double* out, int64_t n, bool lower, int64_t count) { CholeskyHere(a, out, n, lower, count); }
void LuFloats(const float* a, float* lu, int32_t* pivots, int32_t* permutation, int64_t rows, int64_t columns, int64_t count) {
  LuHere(a, lu, pivots, permutation, rows, columns, count);
}
void LuDoubles(const double* a, double* lu, int32_t* pivots, int32_t* permutation, int64_t rows, int64_t columns, int64_t count) {
  LuHere(a, lu, pivots, permutation, rows, columns, count);
}
void SolveFloats(const SmallSystem& s, const float* a, const float* b, float* x, int64_t count) { SolveHere(s, a, b, x, count); }
void SolveDoubles(const SmallSystem& s, const double* a, const double* b, double* x, int64_t count) { SolveHere(s, a, b, x, count); }

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {

HWY_EXPORT(CholeskyFloats);
HWY_EXPORT(CholeskyDoubles);
HWY_EXPORT(LuFloats);
HWY_EXPORT(LuDoubles);
HWY_EXPORT(SolveFloats);
HWY_EXPORT(SolveDoubles);

template <>
void CholeskyOfSmall<float>(const float* a, float* out, int64_t n, bool lower, int64_t count) {
  HWY_DYNAMIC_DISPATCH(CholeskyFloats)(a, out, n, lower, count);
}
template <>
void CholeskyOfSmall<double>(const double* a, double* out, int64_t n, bool lower, int64_t count) {
  HWY_DYNAMIC_DISPATCH(CholeskyDoubles)(a, out, n, lower, count);
}
template <>
void LuOfSmall<float>(const float* a, float* lu, int32_t* pivots, int32_t* permutation, int64_t rows, int64_t columns, int64_t count) {
  HWY_DYNAMIC_DISPATCH(LuFloats)(a, lu, pivots, permutation, rows, columns, count);
}
template <>
void LuOfSmall<double>(const double* a, double* lu, int32_t* pivots, int32_t* permutation, int64_t rows, int64_t columns, int64_t count) {
  HWY_DYNAMIC_DISPATCH(LuDoubles)(a, lu, pivots, permutation, rows, columns, count);
}
template <>
void SolveSmall<float>(const SmallSystem& s, const float* a, const float* b, float* x, int64_t count) {
  HWY_DYNAMIC_DISPATCH(SolveFloats)(s, a, b, x, count);
}
template <>
void SolveSmall<double>(const SmallSystem& s, const double* a, const double* b, double* x, int64_t count) {
  HWY_DYNAMIC_DISPATCH(SolveDoubles)(s, a, b, x, count);
}

}  // namespace krafla::cpu
#endif
