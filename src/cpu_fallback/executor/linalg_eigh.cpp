// SPDX-License-Identifier: Apache-2.0
// Eigenvalues of Hermitian matrices: a real tridiagonal matrix by reflectors (LAPACK: sytd2), then implicit QR steps
// with Wilkinson's shift (Golub and Van Loan, Matrix Computations, 8.3).
#include <limits>
#include <numeric>

#include "cpu_fallback/executor/linalg_algorithms.h"
#include "cpu_fallback/executor/linalg_rotations.h"

namespace krafla::cpu::linalg {

namespace {

constexpr int64_t kStepsAnEigenvalue = 40;

// a = Q T Q^H in place: T's diagonal and the numbers beside it; row k of a keeps reflector k behind the diagonal.
// `rows`: scratch for three rows.
template <class T>
void Tridiagonalize(T* a, int64_t n, double* diagonal, double* beside, T* taus, T* rows) {
  T *w = rows, *pair = rows + n;
  Coefficients<T> coefficients;
  for (int64_t k = 0; k + 1 < n; ++k) {
    const int64_t size = n - k - 1;
    T* v = a + k * n + k + 1;
    for (int64_t i = 0; i < size; ++i) v[i] = Conj(v[i]);
    const ReflectorOf<T> h = MakeReflectorOf(v, size);
    diagonal[k] = Real(a[k * n + k]);
    beside[k] = h.beta;
    taus[k] = h.tau;
    if (h.tau == T(0)) continue;
    T* b = a + (k + 1) * n + k + 1;
    // w = tau b v, by rows of the Hermitian b.
    std::fill(w, w + size, T(0));
    for (int64_t at = 0; at < size; at += kBlock) {
      const int64_t depth = std::min(kBlock, size - at);
      for (int64_t p = 0; p < depth; ++p) coefficients(p, 0) = -Conj(v[at + p]);
      Update(coefficients, b + at * n, n, depth, w, n, 1, size);
    }
    T product = T(0);
    for (int64_t i = 0; i < size; ++i) {
      w[i] = Mul(h.tau, Conj(w[i]));
      product += Mul(Conj(w[i]), v[i]);
    }
    const T half = Mul(T(-0.5) * h.tau, product);
    for (int64_t i = 0; i < size; ++i) {
      w[i] += Mul(half, v[i]);
      pair[i] = Conj(w[i]);
      pair[n + i] = Conj(v[i]);
    }
    // b -= v w^H + w v^H
    for (int64_t at = 0; at < size; at += kUpdateRows) {
      const int64_t count = std::min(kUpdateRows, size - at);
      for (int64_t r = 0; r < count; ++r) {
        coefficients(0, r) = v[at + r];
        coefficients(1, r) = w[at + r];
      }
      Update(coefficients, pair, n, 2, b + at * n, n, count, size);
    }
  }
  diagonal[n - 1] = Real(a[n * n - 1]);
}

// The eigenvalues into `diagonal`; the rotations go to `rows`, n of n numbers. False where it does not converge.
template <class T>
bool SymmetricQr(double* diagonal, double* beside, int64_t n, const RotationList<typename RealOf<T>::Type>& list,
                 T* rows) {
  constexpr double kEps = std::numeric_limits<typename RealOf<T>::Type>::epsilon() / 2;
  int64_t steps_left = kStepsAnEigenvalue * n;
  for (int64_t high = n - 1; high > 0;) {
    const int64_t low = FirstOfPart(diagonal, beside, high, kEps);
    if (low == high) {
      --high;
      continue;
    }
    if (steps_left-- == 0) return false;
    const double last = beside[high - 1], delta = (diagonal[high - 1] - diagonal[high]) / 2;
    const double away = delta + std::copysign(std::sqrt(delta * delta + last * last), delta);
    double x = diagonal[low] - diagonal[high] + (away == 0 ? 0 : last * last / away), z = beside[low];
    for (int64_t k = low; k < high; ++k) {
      const Rotation g = MakeRotation(x, z);
      if (k > low) beside[k - 1] = g.r;
      const double here = beside[k], difference = diagonal[k + 1] - diagonal[k];
      const double change = g.s * (2 * g.c * here + g.s * difference);
      diagonal[k] += change;
      diagonal[k + 1] -= change;
      beside[k] = g.c * g.s * difference + (g.c * g.c - g.s * g.s) * here;
      x = beside[k];
      if (k + 1 < high) {
        z = g.s * beside[k + 1];
        beside[k + 1] *= g.c;
      }
      list.Set(k, g.c, g.s);
    }
    RotateNumbers<T>(list, low, high - low, rows, n);
  }
  return true;
}

template <class T>
void TransposeSquare(T* a, int64_t n) {
  for (int64_t r = 0; r < n; ++r)
    for (int64_t c = 0; c < r; ++c) std::swap(a[r * n + c], a[c * n + r]);
}

}  // namespace

template <class T>
int64_t EighBytes(const plan::LinalgKernel& k) {
  const int64_t n = k.rows;
  return WorkMemory::Bytes<T>(n * n) * 2 + WorkMemory::Bytes<T>(3 * n) + WorkMemory::Bytes<T>(n) +
         WorkMemory::Bytes<double>(n) * 2 + WorkMemory::Bytes<double>(n) * 2 + WorkMemory::Bytes<int64_t>(n);
}

template <class T>
void Eigh(const plan::LinalgKernel& k, const T* in, T* vectors, typename RealOf<T>::Type* values, std::byte* work) {
  using R = typename RealOf<T>::Type;
  const int64_t n = k.rows;
  if (n == 0) return;
  WorkMemory memory(work);
  T *a = memory.Take<T>(n * n), *q = memory.Take<T>(n * n), *rows = memory.Take<T>(3 * n), *taus = memory.Take<T>(n);
  double *diagonal = memory.Take<double>(n), *beside = memory.Take<double>(n);
  const RotationList<R> list{reinterpret_cast<R*>(memory.Take<double>(n)),
                             reinterpret_cast<R*>(memory.Take<double>(n))};
  int64_t* order = memory.Take<int64_t>(n);

  double largest = 0;
  for (int64_t r = 0; r < n; ++r) {
    const int64_t begin = k.lower ? 0 : r, end = k.lower ? r + 1 : n;
    largest = std::max(largest, LargestPart<T>({in + r * n + begin, static_cast<std::size_t>(end - begin)}));
  }
  const double scale = ScaleOf(largest);
  bool good = std::isfinite(largest);
  if (good) {
    for (int64_t r = 0; r < n; ++r)
      for (int64_t c = 0; c <= r; ++c) {
        const T v = Scaled(k.lower ? in[r * n + c] : Conj(in[c * n + r]), scale);
        a[r * n + c] = v;
        a[c * n + r] = Conj(v);
      }
    Tridiagonalize(a, n, diagonal, beside, taus, rows);
    std::fill(q, q + n * n, T(0));
    for (int64_t i = 0; i < n; ++i) q[i * n + i] = 1;
    for (int64_t i = n - 2; i >= 0; --i)
      if (taus[i] != T(0)) Reflect(a + i * n + i + 1, taus[i], q + (i + 1) * n + i + 1, n, n - i - 1, n - i - 1, rows);
    TransposeSquare(q, n);
    good = SymmetricQr<T>(diagonal, beside, n, list, q);
  }
  if (!good) {
    std::fill(vectors, vectors + n * n, T(std::numeric_limits<R>::quiet_NaN()));
    std::fill(values, values + n, std::numeric_limits<R>::quiet_NaN());
    return;
  }
  std::iota(order, order + n, int64_t{0});
  std::sort(order, order + n, [&](int64_t x, int64_t y) { return diagonal[x] < diagonal[y]; });
  for (int64_t c = 0; c < n; ++c) values[c] = static_cast<R>(diagonal[order[c]] / scale);
  for (int64_t r = 0; r < n; ++r)
    for (int64_t c = 0; c < n; ++c) vectors[r * n + c] = q[order[c] * n + r];
}

#define KRAFLA_INSTANTIATE(T)                               \
  template int64_t EighBytes<T>(const plan::LinalgKernel&); \
  template void Eigh<T>(const plan::LinalgKernel&, const T*, T*, RealOf<T>::Type*, std::byte*);
KRAFLA_FOR_NUMBERS(KRAFLA_INSTANTIATE)
#undef KRAFLA_INSTANTIATE

}  // namespace krafla::cpu::linalg
