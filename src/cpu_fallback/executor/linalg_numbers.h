// SPDX-License-Identifier: Apache-2.0
// Real and complex numbers as the algorithms of dense linear algebra take them.
#pragma once

#include <complex>
#include <cstdint>
#include <type_traits>

#include "base/thread_pool.h"
#include "cpu_fallback/kernels/row_update.h"
#include "numerics/complex_math.h"

namespace krafla::cpu::linalg {

template <class T>
struct RealOf {
  using Type = T;
};
template <class T>
struct RealOf<std::complex<T>> {
  using Type = T;
};
template <class T>
constexpr bool kIsComplex = !std::is_same_v<typename RealOf<T>::Type, T>;

// M(T) for each type of number that there are algorithms for.
#define KRAFLA_FOR_NUMBERS(M) M(float) M(double) M(std::complex<float>) M(std::complex<double>)

template <class T>
T Conj(T x) {
  if constexpr (kIsComplex<T>) return std::conj(x);
  else return x;
}
template <class T>
auto Real(T x) {
  if constexpr (kIsComplex<T>) return x.real();
  else return x;
}
template <class T>
auto Square(T x) {
  if constexpr (kIsComplex<T>) return x.real() * x.real() + x.imag() * x.imag();
  else return x * x;
}
// Without the checks for infinities of std::complex's operator.
template <class T>
T Mul(T a, T b) {
  if constexpr (kIsComplex<T>)
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  else return a * b;
}
template <class T>
T Divide(T a, T b) {
  if constexpr (kIsComplex<T>) return ComplexDivide(a, b);
  else return a / b;
}

// numbers[i] /= by
template <class T>
void DivideAll(T* numbers, int64_t count, T by) {
  if constexpr (kIsComplex<T>) {
    for (int64_t i = 0; i < count; ++i) numbers[i] = Divide(numbers[i], by);
  } else {
    DivideRow<T>(numbers, count, by);
  }
}

constexpr int64_t kBlock = 64;  // columns or rows that are worked on before the rest is updated

// The coefficients of an update of at most kBlock rows deep. Not cleared: UpdateRows reads what belongs to its rows.
template <class T>
class Coefficients {
 public:
  T& operator()(int64_t depth, int64_t row) { return reinterpret_cast<T*>(values_)[depth * kUpdateRows + row]; }
  const T* data() const { return reinterpret_cast<const T*>(values_); }

 private:
  alignas(64) typename RealOf<T>::Type values_[kBlock * kUpdateRows * (kIsComplex<T> ? 2 : 1)];
};

// to[r, c] -= sum over k < depth of coefficients(k, r) from[k, c] for at most kUpdateRows rows.
template <class T>
void Update(const Coefficients<T>& coefficients, const T* from, int64_t from_stride, int64_t depth, T* to,
            int64_t to_stride, int64_t rows, int64_t columns) {
  using R = typename RealOf<T>::Type;
  UpdateRows<R>(kIsComplex<T>, reinterpret_cast<const R*>(coefficients.data()), reinterpret_cast<const R*>(from),
                from_stride, depth, reinterpret_cast<R*>(to), to_stride, rows, columns);
}

// Elements (row, k) of a matrix that may be turned or conjugated.
template <class T>
struct Factor {
  const T* numbers = nullptr;
  int64_t row_stride = 0, column_stride = 0;
  bool conjugate = false;
  T operator()(int64_t row, int64_t column) const {
    const T v = numbers[row * row_stride + column * column_stride];
    return conjugate ? Conj(v) : v;
  }
  Factor At(int64_t row, int64_t column) const {
    return {numbers + row * row_stride + column * column_stride, row_stride, column_stride, conjugate};
  }
};

// Memory for SubtractProduct of at most `columns` columns: so many numbers.
template <class T>
int64_t PackedNumbers(int64_t columns);

// to[r, c] -= sum over k < depth of left(r, k) from[k, c], depth at most kBlock; the rows are shared among the threads.
// `upper`: elements below the diagonal of `to` may hold anything after. `packed`: PackedNumbers of memory.
template <class T>
void SubtractProduct(const Factor<T>& left, const T* from, int64_t from_stride, int64_t depth, T* to, int64_t to_stride,
                     int64_t rows, int64_t columns, bool upper, T* packed, ThreadPool& pool);

}  // namespace krafla::cpu::linalg
