// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/kernels/complex_products.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_fallback/kernels/complex_products.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu_fallback/kernels/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace krafla::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// complex_formulas::Multiply.
template <class D>
struct ComplexVector {
  hn::Vec<D> re, im;
  HWY_INLINE void Times(const ComplexVector& y) {
    const auto real = hn::Sub(hn::Mul(re, y.re), hn::Mul(im, y.im));
    im = hn::Add(hn::Mul(re, y.im), hn::Mul(im, y.re));
    re = real;
  }
};

// Rows side by side, as each product waits for the last one of its row.
template <std::size_t kRows, class T>
HWY_INLINE void MultiplyRows(const T* re, const T* im, std::size_t n, T* to_re, T* to_im) {
  const hn::CappedTag<T, 1> d;
  using Number = ComplexVector<decltype(d)>;
  Number product[kRows];
  KRAFLA_UNROLL(4)
  for (std::size_t r = 0; r < kRows; ++r) product[r] = {hn::LoadU(d, to_re + r), hn::LoadU(d, to_im + r)};
  for (std::size_t i = 0; i < n; ++i) {
    KRAFLA_UNROLL(4)
    for (std::size_t r = 0; r < kRows; ++r)
      product[r].Times(Number{hn::LoadU(d, re + r * n + i), hn::LoadU(d, im + r * n + i)});
  }
  KRAFLA_UNROLL(4)
  for (std::size_t r = 0; r < kRows; ++r) {
    hn::StoreU(product[r].re, d, to_re + r);
    hn::StoreU(product[r].im, d, to_im + r);
  }
}
template <class T>
void ProductsOfRows(ComplexParts in, int64_t rows, int64_t count, ComplexAccumulators accumulator) {
  const auto n = static_cast<std::size_t>(count);
  const T *re = static_cast<const T*>(in.re), *im = static_cast<const T*>(in.im);
  T *to_re = static_cast<T*>(accumulator.re), *to_im = static_cast<T*>(accumulator.im);
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4, re += 4 * n, im += 4 * n) MultiplyRows<4>(re, im, n, to_re + r, to_im + r);
  for (; r < rows; ++r, re += n, im += n) MultiplyRows<1>(re, im, n, to_re + r, to_im + r);
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE void MultiplyColumns(D d, const T* re, const T* im, std::size_t rows, std::size_t n, T* to_re, T* to_im,
                                std::size_t& c) {
  using Number = ComplexVector<D>;
  for (; c + hn::Lanes(d) <= n; c += hn::Lanes(d)) {
    Number product{hn::LoadU(d, to_re + c), hn::LoadU(d, to_im + c)};
    for (std::size_t r = 0; r < rows; ++r)
      product.Times(Number{hn::LoadU(d, re + r * n + c), hn::LoadU(d, im + r * n + c)});
    hn::StoreU(product.re, d, to_re + c);
    hn::StoreU(product.im, d, to_im + c);
  }
}
template <class T>
void ProductsOfColumns(ComplexParts in, int64_t row_count, int64_t columns, ComplexAccumulators accumulator) {
  const auto rows = static_cast<std::size_t>(row_count), n = static_cast<std::size_t>(columns);
  const T *re = static_cast<const T*>(in.re), *im = static_cast<const T*>(in.im);
  T *to_re = static_cast<T*>(accumulator.re), *to_im = static_cast<T*>(accumulator.im);
  std::size_t c = 0;
  MultiplyColumns(hn::ScalableTag<T>(), re, im, rows, n, to_re, to_im, c);
  MultiplyColumns(hn::CappedTag<T, 16 / sizeof(T)>(), re, im, rows, n, to_re, to_im, c);
  MultiplyColumns(hn::CappedTag<T, 1>(), re, im, rows, n, to_re, to_im, c);
}

ComplexProducts FindComplexProductsOf(ElementType part) {
  if (part == ElementType::kF32) return {&ProductsOfRows<float>, &ProductsOfColumns<float>};
#if HWY_HAVE_FLOAT64
  if (part == ElementType::kF64) return {&ProductsOfRows<double>, &ProductsOfColumns<double>};
#endif
  return {};
}

}  // namespace krafla::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace krafla::cpu {
HWY_EXPORT(FindComplexProductsOf);
ComplexProducts FindComplexProducts(ElementType part) { return HWY_DYNAMIC_DISPATCH(FindComplexProductsOf)(part); }
}  // namespace krafla::cpu
#endif
