// SPDX-License-Identifier: Apache-2.0
// What eigenvalues and singular values share: Householder reflectors on matrices by rows, and implicit QR steps on the
// few numbers that are left. Vectors are kept as rows, so that a rotation of two is one of contiguous rows; those of a
// whole step are applied at once. The numbers of the steps are doubles also where the matrix is of floats.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "cpu_fallback/executor/linalg_numbers.h"

namespace krafla::cpu::linalg {

// A part of a worker's memory at a time.
class WorkMemory {
 public:
  explicit WorkMemory(std::byte* at) : at_(at) {}
  template <class N>
  N* Take(int64_t count) {
    auto* out = reinterpret_cast<N*>(at_);
    at_ += Bytes<N>(count);
    return out;
  }
  template <class N>
  static int64_t Bytes(int64_t count) {
    return (count * static_cast<int64_t>(sizeof(N)) + 63) / 64 * 64;
  }

 private:
  std::byte* at_;
};

// LAPACK's larfg: H = I - tau v v^H with v[0] = 1 and H^H x = beta e_1, beta real. Leaves v in x. Worked out in double,
// so that the squares of the smallest floats are numbers.
template <class T>
struct ReflectorOf {
  T tau = T(0);
  double beta = 0;
};
template <class T>
ReflectorOf<T> MakeReflectorOf(T* x, int64_t count);

// a -= v tau (v^H a) for `rows` rows of a; `row`: scratch for one.
template <class T>
void Reflect(const T* v, T tau, T* a, int64_t stride, int64_t rows, int64_t columns, T* row);

// Householder QR of a matrix whose column j lies in row j: R and, behind its diagonal, the reflectors. `scratch`: for a
// column.
template <class T>
void FactorColumns(T* columns, int64_t stride, int64_t rows, int64_t count, T* taus, T* scratch);

// Rotations (c, s) of neighbouring rows that are applied together.
template <class R>
struct RotationList {
  R *cosines, *sines;
  void Set(int64_t i, double c, double s) const {
    cosines[i] = static_cast<R>(c);
    sines[i] = static_cast<R>(s);
  }
};
// (c, s) with c x + s y = r and c y - s x = 0.
struct Rotation {
  double c, s, r;
};
inline Rotation MakeRotation(double x, double y) {
  if (y == 0) return {1, 0, x};
  const double square = x * x + y * y;
  if (square < 1e-280) {  // squares are no numbers any more
    const double r = std::hypot(x, y);
    return {x / r, y / r, r};
  }
  const double r = std::sqrt(square);
  return {x / r, y / r, r};
}
// What is not larger is nothing, beside numbers of at most 1.
inline constexpr double kNothing = 1e-150;

// Where the last part of a matrix of two diagonals begins that ends with row `high`: numbers beside the diagonal are
// zero from where they are nothing beside it.
inline int64_t FirstOfPart(const double* diagonal, double* beside, int64_t high, double eps) {
  for (int64_t low = high; low > 0; --low) {
    const double here = std::abs(beside[low - 1]);
    if (here > kNothing && here > eps * (std::abs(diagonal[low - 1]) + std::abs(diagonal[low]))) continue;
    beside[low - 1] = 0;
    return low;
  }
  return 0;
}

template <class T>
void RotateNumbers(const RotationList<typename RealOf<T>::Type>& list, int64_t first, int64_t count, T* rows,
                   int64_t columns) {
  using R = typename RealOf<T>::Type;
  constexpr int64_t kParts = kIsComplex<T> ? 2 : 1;
  RotateRows<R>(list.cosines, list.sines, first, count, reinterpret_cast<R*>(rows), columns * kParts, columns * kParts);
}

// The power of two that brings `largest` below 1; 1 where it is zero.
inline double ScaleOf(double largest) {
  if (largest == 0) return 1;
  int exponent = 0;
  std::frexp(largest, &exponent);
  return std::ldexp(1.0, std::clamp(-exponent, -1020, 1020));
}

template <class T>
T Scaled(T v, double scale) {
  using R = typename RealOf<T>::Type;
  if constexpr (kIsComplex<T>) return {static_cast<R>(v.real() * scale), static_cast<R>(v.imag() * scale)};
  else return static_cast<R>(v * scale);
}

// The largest part of a number, infinite where one is not finite.
template <class T>
double LargestPart(std::span<const T> numbers) {
  using R = typename RealOf<T>::Type;
  const R* parts = reinterpret_cast<const R*>(numbers.data());
  const std::size_t count = numbers.size() * (kIsComplex<T> ? 2 : 1);
  R largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const R v = std::abs(parts[i]);
    if (!(v <= largest)) largest = v;  // NaN, too, and stays
    if (!std::isfinite(largest)) return HUGE_VAL;
  }
  return largest;
}

}  // namespace krafla::cpu::linalg
