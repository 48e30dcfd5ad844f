// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/row_update.h"

#include "cpu_fallback/kernels/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/row_update.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One tile: kRows rows, kVectors vectors of columns. Of complex numbers a vector holds half as many.
template <int kRows, int kVectors, bool kComplex, class D, class T = hn::TFromD<D>>
HWY_INLINE void Tile(D d, const T* HWY_RESTRICT coefficients, const T* from, int64_t from_stride, int64_t depth, T* to,
                     int64_t to_stride) {
  using V = hn::Vec<D>;
  const std::size_t lanes = hn::Lanes(d);
  constexpr int64_t kParts = kComplex ? 2 : 1;
  V sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v)
      sum[r][v] = hn::LoadU(d, to + r * to_stride * kParts + v * static_cast<int64_t>(lanes));
  for (int64_t k = 0; k < depth; ++k) {
    V x[kVectors], turned[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      x[v] = hn::LoadU(d, from + v * static_cast<int64_t>(lanes));
      if constexpr (kComplex) turned[v] = hn::Reverse2(d, x[v]);
    }
    for (int r = 0; r < kRows; ++r) {
      const V re = hn::Set(d, coefficients[r * kParts]);
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::NegMulAdd(re, x[v], sum[r][v]);
      if constexpr (kComplex) {
        // (re, im) c = re (c.re, c.im) + (-im, im) with its parts exchanged.
        const V im = hn::Set(d, coefficients[r * 2 + 1]);
        const V signed_im = hn::OddEven(im, hn::Neg(im));
        for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::NegMulAdd(signed_im, turned[v], sum[r][v]);
      }
    }
    from += from_stride * kParts;
    coefficients += kUpdateRows * kParts;
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v)
      hn::StoreU(sum[r][v], d, to + r * to_stride * kParts + v * static_cast<int64_t>(lanes));
}

template <int kRows, bool kComplex, class T>
HWY_INLINE void Rows(const T* coefficients, const T* from, int64_t from_stride, int64_t depth, T* to, int64_t to_stride,
                     int64_t columns) {
  constexpr int64_t kParts = kComplex ? 2 : 1;
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t n = columns * kParts;
  int64_t c = 0;
  for (; c + 2 * lanes <= n; c += 2 * lanes)
    Tile<kRows, 2, kComplex>(d, coefficients, from + c, from_stride, depth, to + c, to_stride);
  for (; c + lanes <= n; c += lanes)
    Tile<kRows, 1, kComplex>(d, coefficients, from + c, from_stride, depth, to + c, to_stride);
  const hn::CappedTag<T, 4> d4;
  if (hn::Lanes(d4) < static_cast<std::size_t>(lanes))
    for (const auto step = static_cast<int64_t>(hn::Lanes(d4)); c + step <= n; c += step)
      Tile<kRows, 1, kComplex>(d4, coefficients, from + c, from_stride, depth, to + c, to_stride);
  const hn::CappedTag<T, static_cast<std::size_t>(kParts)> one;
  for (; c < n; c += kParts)
    Tile<kRows, 1, kComplex>(one, coefficients, from + c, from_stride, depth, to + c, to_stride);
}

template <class T, bool kComplex>
void Update(const T* coefficients, const T* from, int64_t from_stride, int64_t depth, T* to, int64_t to_stride,
            int64_t rows, int64_t columns) {
  switch (rows) {
    case 4: return Rows<4, kComplex>(coefficients, from, from_stride, depth, to, to_stride, columns);
    case 3: return Rows<3, kComplex>(coefficients, from, from_stride, depth, to, to_stride, columns);
    case 2: return Rows<2, kComplex>(coefficients, from, from_stride, depth, to, to_stride, columns);
    case 1: return Rows<1, kComplex>(coefficients, from, from_stride, depth, to, to_stride, columns);
    default: return;
  }
}

void UpdateFloat(bool complex, const float* coefficients, const float* from, int64_t from_stride, int64_t depth,
                 float* to, int64_t to_stride, int64_t rows, int64_t columns) {
  if (complex) Update<float, true>(coefficients, from, from_stride, depth, to, to_stride, rows, columns);
  else Update<float, false>(coefficients, from, from_stride, depth, to, to_stride, rows, columns);
}
void UpdateDouble(bool complex, const double* coefficients, const double* from, int64_t from_stride, int64_t depth,
                  double* to, int64_t to_stride, int64_t rows, int64_t columns) {
  if (complex) Update<double, true>(coefficients, from, from_stride, depth, to, to_stride, rows, columns);
  else Update<double, false>(coefficients, from, from_stride, depth, to, to_stride, rows, columns);
}

template <class T, class F>
HWY_INLINE void ForVectors(int64_t count, F&& f) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) f(d, i);
  const hn::CappedTag<T, 1> one;
  for (; i < count; ++i) f(one, i);
}
template <class T>
void Divide(T* row, int64_t count, T by) {
  ForVectors<T>(count, [&](auto d, int64_t i)
                           HWY_ATTR { hn::StoreU(hn::Div(hn::LoadU(d, row + i), hn::Set(d, by)), d, row + i); });
}
template <class T>
void Negate(const T* row, int64_t count, T* out) {
  ForVectors<T>(count, [&](auto d, int64_t i) HWY_ATTR { hn::StoreU(hn::Neg(hn::LoadU(d, row + i)), d, out + i); });
}
template <int kVectors, class D, class T = hn::TFromD<D>>
HWY_INLINE void RotateColumns(D d, const T* HWY_RESTRICT cosines, const T* HWY_RESTRICT sines, int64_t count, T* rows,
                              int64_t stride) {
  using V = hn::Vec<D>;
  const std::size_t lanes = hn::Lanes(d);
  V x[kVectors];
  for (int v = 0; v < kVectors; ++v) x[v] = hn::LoadU(d, rows + static_cast<std::size_t>(v) * lanes);
  for (int64_t i = 0; i < count; ++i, rows += stride) {
    const V c = hn::Set(d, cosines[i]), s = hn::Set(d, sines[i]);
    for (int v = 0; v < kVectors; ++v) {
      T* at = rows + static_cast<std::size_t>(v) * lanes;
      const V y = hn::LoadU(d, at + stride);
      hn::StoreU(hn::MulAdd(s, y, hn::Mul(c, x[v])), d, at);
      x[v] = hn::NegMulAdd(s, x[v], hn::Mul(c, y));
    }
  }
  for (int v = 0; v < kVectors; ++v) hn::StoreU(x[v], d, rows + static_cast<std::size_t>(v) * lanes);
}
template <class T>
void Rotate(const T* cosines, const T* sines, int64_t first, int64_t count, T* rows, int64_t stride, int64_t columns) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  cosines += first;
  sines += first;
  rows += first * stride;
  int64_t c = 0;
  for (; c + 4 * lanes <= columns; c += 4 * lanes) RotateColumns<4>(d, cosines, sines, count, rows + c, stride);
  for (; c + lanes <= columns; c += lanes) RotateColumns<1>(d, cosines, sines, count, rows + c, stride);
  const hn::CappedTag<T, 4> d4;
  const auto few = static_cast<int64_t>(hn::Lanes(d4));
  if (few < lanes)
    for (; c + few <= columns; c += few) RotateColumns<1>(d4, cosines, sines, count, rows + c, stride);
  const hn::CappedTag<T, 1> one;
  for (; c < columns; ++c) RotateColumns<1>(one, cosines, sines, count, rows + c, stride);
}
void RotateFloats(const float* cosines, const float* sines, int64_t first, int64_t count, float* rows, int64_t stride,
                  int64_t columns) {
  Rotate(cosines, sines, first, count, rows, stride, columns);
}
void RotateDoubles(const double* cosines, const double* sines, int64_t first, int64_t count, double* rows,
                   int64_t stride, int64_t columns) {
  Rotate(cosines, sines, first, count, rows, stride, columns);
}

template <class T>
void Dot(bool complex, const T* x, const T* y, int64_t count, T* out) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t n = complex ? 2 * count : count;
  V same = hn::Zero(d), crossed = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= n && lanes > 1; i += lanes) {
    const V a = hn::LoadU(d, x + i), b = hn::LoadU(d, y + i);
    same = hn::MulAdd(a, b, same);
    if (complex) crossed = hn::MulAdd(a, hn::Reverse2(d, b), crossed);
  }
  if (!complex) {
    T sum = hn::ReduceSum(d, same);
    for (; i < n; ++i) sum += x[i] * y[i];
    out[0] = sum;
    return;
  }
  T re = hn::ReduceSum(d, hn::OddEven(hn::Neg(same), same)), im = hn::ReduceSum(d, crossed);
  for (; i < n; i += 2) {
    re += x[i] * y[i] - x[i + 1] * y[i + 1];
    im += x[i] * y[i + 1] + x[i + 1] * y[i];
  }
  out[0] = re;
  out[1] = im;
}
void DotFloats(bool complex, const float* x, const float* y, int64_t count, float* sum) {
  Dot(complex, x, y, count, sum);
}
void DotDoubles(bool complex, const double* x, const double* y, int64_t count, double* sum) {
  Dot(complex, x, y, count, sum);
}

template <int kRows, class T>
void Reflect(const T* HWY_RESTRICT v, T tau, T* HWY_RESTRICT rows, int64_t stride, int64_t n) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V sums[kRows];
  KRAFLA_UNROLL(4)
  for (V& sum : sums) sum = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const V x = hn::LoadU(d, v + i);
    KRAFLA_UNROLL(4)
    for (int r = 0; r < kRows; ++r) sums[r] = hn::MulAdd(x, hn::LoadU(d, rows + r * stride + i), sums[r]);
  }
  T by[kRows];
  KRAFLA_UNROLL(4)
  for (int r = 0; r < kRows; ++r) {
    by[r] = hn::ReduceSum(d, sums[r]);
    for (int64_t k = i; k < n; ++k) by[r] += v[k] * rows[r * stride + k];
    by[r] *= tau;
  }
  for (i = 0; i + lanes <= n; i += lanes) {
    const V x = hn::LoadU(d, v + i);
    KRAFLA_UNROLL(4)
    for (int r = 0; r < kRows; ++r) {
      T* at = rows + r * stride + i;
      hn::StoreU(hn::NegMulAdd(hn::Set(d, by[r]), x, hn::LoadU(d, at)), d, at);
    }
  }
  for (; i < n; ++i)
    for (int r = 0; r < kRows; ++r) rows[r * stride + i] -= by[r] * v[i];
}
template <class T>
void ReflectUpTo(const T* v, T tau, T* rows, int64_t stride, int64_t count, int64_t columns) {
  switch (count) {
    case 4: return Reflect<4>(v, tau, rows, stride, columns);
    case 3: return Reflect<3>(v, tau, rows, stride, columns);
    case 2: return Reflect<2>(v, tau, rows, stride, columns);
    case 1: return Reflect<1>(v, tau, rows, stride, columns);
    default: return;
  }
}
void ReflectFloats(const float* v, float tau, float* rows, int64_t stride, int64_t count, int64_t columns) {
  ReflectUpTo(v, tau, rows, stride, count, columns);
}
void ReflectDoubles(const double* v, double tau, double* rows, int64_t stride, int64_t count, int64_t columns) {
  ReflectUpTo(v, tau, rows, stride, count, columns);
}

template <class T, class D>
HWY_INLINE hn::Vec<D> LoadDoubles(D d, const T* at) {
  if constexpr (sizeof(T) == sizeof(double)) return hn::LoadU(d, at);
  else return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, D>(), at));
}
template <class T>
double Squares(const T* row, int64_t count) {
  const hn::ScalableTag<double> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V sums[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) KRAFLA_UNROLL(4)
  for (int64_t k = 0; k < 4; ++k) {
    const V x = LoadDoubles(d, row + i + k * lanes);
    sums[k] = hn::MulAdd(x, x, sums[k]);
  }
  double sum = hn::ReduceSum(d, hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3])));
  for (; i < count; ++i) sum += static_cast<double>(row[i]) * static_cast<double>(row[i]);
  return sum;
}
double SquaresOfFloats(const float* row, int64_t count) { return Squares(row, count); }
double SquaresOfDoubles(const double* row, int64_t count) { return Squares(row, count); }
template <class T>
void Scale(T* row, int64_t count, double by) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<T, decltype(d)> dt;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto x = hn::Mul(LoadDoubles(d, row + i), hn::Set(d, by));
    if constexpr (sizeof(T) == sizeof(double)) hn::StoreU(x, d, row + i);
    else hn::StoreU(hn::DemoteTo(dt, x), dt, row + i);
  }
  for (; i < count; ++i) row[i] = static_cast<T>(static_cast<double>(row[i]) * by);
}
void ScaleFloats(float* row, int64_t count, double by) { Scale(row, count, by); }
void ScaleDoubles(double* row, int64_t count, double by) { Scale(row, count, by); }

void DivideFloats(float* row, int64_t count, float by) { Divide(row, count, by); }
void DivideDoubles(double* row, int64_t count, double by) { Divide(row, count, by); }
void NegateFloats(const float* row, int64_t count, float* out) { Negate(row, count, out); }
void NegateDoubles(const double* row, int64_t count, double* out) { Negate(row, count, out); }

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {

HWY_EXPORT(UpdateFloat);
HWY_EXPORT(UpdateDouble);
HWY_EXPORT(RotateFloats);
HWY_EXPORT(RotateDoubles);
HWY_EXPORT(DotFloats);
HWY_EXPORT(DotDoubles);
HWY_EXPORT(ReflectFloats);
HWY_EXPORT(ReflectDoubles);
HWY_EXPORT(SquaresOfFloats);
HWY_EXPORT(SquaresOfDoubles);
HWY_EXPORT(ScaleFloats);
HWY_EXPORT(ScaleDoubles);
HWY_EXPORT(DivideFloats);
HWY_EXPORT(DivideDoubles);
HWY_EXPORT(NegateFloats);
HWY_EXPORT(NegateDoubles);

template <>
void UpdateRows<float>(bool complex, const float* coefficients, const float* from, int64_t from_stride, int64_t depth,
                       float* to, int64_t to_stride, int64_t rows, int64_t columns) {
  HWY_DYNAMIC_DISPATCH(UpdateFloat)(complex, coefficients, from, from_stride, depth, to, to_stride, rows, columns);
}
template <>
void UpdateRows<double>(bool complex, const double* coefficients, const double* from, int64_t from_stride,
                        int64_t depth, double* to, int64_t to_stride, int64_t rows, int64_t columns) {
  HWY_DYNAMIC_DISPATCH(UpdateDouble)(complex, coefficients, from, from_stride, depth, to, to_stride, rows, columns);
}

template <>
void RotateRows<float>(const float* cosines, const float* sines, int64_t first, int64_t count, float* rows,
                       int64_t stride, int64_t columns) {
  HWY_DYNAMIC_DISPATCH(RotateFloats)(cosines, sines, first, count, rows, stride, columns);
}
template <>
void RotateRows<double>(const double* cosines, const double* sines, int64_t first, int64_t count, double* rows,
                        int64_t stride, int64_t columns) {
  HWY_DYNAMIC_DISPATCH(RotateDoubles)(cosines, sines, first, count, rows, stride, columns);
}
template <>
void DotRows<float>(bool complex, const float* x, const float* y, int64_t count, float* sum) {
  HWY_DYNAMIC_DISPATCH(DotFloats)(complex, x, y, count, sum);
}
template <>
void DotRows<double>(bool complex, const double* x, const double* y, int64_t count, double* sum) {
  HWY_DYNAMIC_DISPATCH(DotDoubles)(complex, x, y, count, sum);
}
template <>
void ReflectRows<float>(const float* v, float tau, float* rows, int64_t stride, int64_t count, int64_t columns) {
  HWY_DYNAMIC_DISPATCH(ReflectFloats)(v, tau, rows, stride, count, columns);
}
template <>
void ReflectRows<double>(const double* v, double tau, double* rows, int64_t stride, int64_t count, int64_t columns) {
  HWY_DYNAMIC_DISPATCH(ReflectDoubles)(v, tau, rows, stride, count, columns);
}
template <>
double SumOfSquares<float>(const float* row, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(SquaresOfFloats)(row, count);
}
template <>
double SumOfSquares<double>(const double* row, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(SquaresOfDoubles)(row, count);
}
template <>
void ScaleRow<float>(float* row, int64_t count, double by) {
  HWY_DYNAMIC_DISPATCH(ScaleFloats)(row, count, by);
}
template <>
void ScaleRow<double>(double* row, int64_t count, double by) {
  HWY_DYNAMIC_DISPATCH(ScaleDoubles)(row, count, by);
}
template <>
void DivideRow<float>(float* row, int64_t count, float by) {
  HWY_DYNAMIC_DISPATCH(DivideFloats)(row, count, by);
}
template <>
void DivideRow<double>(double* row, int64_t count, double by) {
  HWY_DYNAMIC_DISPATCH(DivideDoubles)(row, count, by);
}
template <>
void NegateRow<float>(const float* row, int64_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(NegateFloats)(row, count, out);
}
template <>
void NegateRow<double>(const double* row, int64_t count, double* out) {
  HWY_DYNAMIC_DISPATCH(NegateDoubles)(row, count, out);
}

}  // namespace krafla::cpu
#endif
