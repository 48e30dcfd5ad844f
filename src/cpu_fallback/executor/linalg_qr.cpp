// SPDX-License-Identifier: Apache-2.0
// Householder QR as LAPACK's geqrf and orgqr define it.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu_fallback/executor/linalg_algorithms.h"
#include "cpu_fallback/executor/linalg_numbers.h"

namespace krafla::cpu::linalg {

namespace {

// a[k.., c..] -= v conj(tau) (v^H a) for the reflector v with v[0] = 1 (`v` holds it, `row` is scratch for a row).
template <class T>
void Reflect(const T* v, T tau, T* a, int64_t stride, int64_t rows, int64_t columns, T* row) {
  std::fill(row, row + columns, T(0));
  Coefficients<T> coefficients;
  for (int64_t at = 0; at < rows; at += kBlock) {
    const int64_t depth = std::min(kBlock, rows - at);
    for (int64_t p = 0; p < depth; ++p) coefficients(p, 0) = -Conj(v[at + p]);
    Update(coefficients, a + at * stride, stride, depth, row, columns, 1, columns);
  }
  for (int64_t r = 0; r < rows; r += kUpdateRows) {
    const int64_t count = std::min(kUpdateRows, rows - r);
    for (int64_t i = 0; i < count; ++i) coefficients(0, i) = Mul(tau, v[r + i]);
    Update(coefficients, row, columns, 1, a + r * stride, stride, count, columns);
  }
}

}  // namespace

template <class T>
void Qr(const plan::LinalgKernel& k, const T* in, T* a, T* taus, T* work) {
  const int64_t m = k.rows, n = k.columns;
  std::memcpy(static_cast<void*>(a), in, static_cast<std::size_t>(m * n) * sizeof(T));
  using R = typename RealOf<T>::Type;
  for (int64_t c = 0; c < k.reflectors; ++c) {
    R tail = 0;
    for (int64_t r = c + 1; r < m; ++r) tail += Square(a[r * n + c]);
    const T alpha = a[c * n + c];
    R imaginary = 0;
    if constexpr (kIsComplex<T>) imaginary = alpha.imag();
    T tau = 0;
    if (tail != 0 || imaginary != 0) {
      const R beta = -std::copysign(std::sqrt(tail + Square(alpha)), Real(alpha));
      if constexpr (kIsComplex<T>) tau = T((beta - alpha.real()) / beta, -alpha.imag() / beta);
      else tau = (beta - alpha) / beta;
      const T scale = T(1) / (alpha - beta);
      for (int64_t r = c + 1; r < m; ++r) a[r * n + c] = Mul(a[r * n + c], scale);
      a[c * n + c] = beta;
    }
    taus[c] = tau;
    if (c + 1 == n || tau == T(0)) continue;
    work[0] = 1;
    for (int64_t r = c + 1; r < m; ++r) work[r - c] = a[r * n + c];
    Reflect(work, Conj(tau), a + c * n + c + 1, n, m - c, n - c - 1, work + m);
  }
}

template <class T>
void HouseholderProduct(const plan::LinalgKernel& k, const T* a, const T* taus, T* q, T* work) {
  const int64_t m = k.rows, n = k.columns;
  std::fill(q, q + m * n, T(0));
  for (int64_t d = 0; d < std::min(m, n); ++d) q[d * n + d] = 1;
  for (int64_t c = k.reflectors - 1; c >= 0; --c) {
    work[0] = 1;
    for (int64_t r = c + 1; r < m; ++r) work[r - c] = a[r * n + c];
    Reflect(work, taus[c], q + c * n + c, n, m - c, n - c, work + m);
  }
}

#define KRAFLA_INSTANTIATE(T) \
  template void Qr<T>(const plan::LinalgKernel&, const T*, T*, T*, T*); \
  template void HouseholderProduct<T>(const plan::LinalgKernel&, const T*, const T*, T*, T*);
KRAFLA_FOR_NUMBERS(KRAFLA_INSTANTIATE)
#undef KRAFLA_INSTANTIATE

}  // namespace krafla::cpu::linalg
