// SPDX-License-Identifier: Apache-2.0
// Cholesky factors and triangular systems: blocks of at most kBlock rows, within them groups of kUpdateRows, which the
// rows before them are subtracted from at once.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu_fallback/executor/linalg_algorithms.h"
#include "cpu_fallback/executor/linalg_numbers.h"

namespace krafla::cpu::linalg {

namespace {

// What is left after the first block should be worth its own update.
int64_t BlockFor(int64_t n) { return n <= 2 * kBlock ? kBlock / 2 : kBlock; }

// The upper factor u of a = u^H u, in place in the upper triangle; what is below may be written over. False where a is
// not positive definite.
template <class T>
bool FactorUpper(T* u, int64_t n, T* packed, ThreadPool& pool) {
  Coefficients<T> coefficients;
  const int64_t block = BlockFor(n);
  for (int64_t at = 0; at < n; at += block) {
    const int64_t end = std::min(n, at + block);
    for (int64_t group = at; group < end; group += kUpdateRows) {
      const int64_t count = std::min(kUpdateRows, end - group);
      for (int64_t p = at; p < group; ++p)
        for (int64_t r = 0; r < count; ++r) coefficients(p - at, r) = Conj(u[p * n + group + r]);
      if (group > at)
        Update(coefficients, u + at * n + group, n, group - at, u + group * n + group, n, count, n - group);
      for (int64_t k = group; k < group + count; ++k) {
        for (int64_t p = group; p < k; ++p) coefficients(p - group, 0) = Conj(u[p * n + k]);
        if (k > group) Update(coefficients, u + group * n + k, n, k - group, u + k * n + k, n, 1, n - k);
        const auto diagonal = Real(u[k * n + k]);
        if (!(diagonal > 0)) return false;
        const auto root = std::sqrt(diagonal);
        u[k * n + k] = root;
        DivideAll(u + k * n + k + 1, n - k - 1, T(root));
      }
    }
    SubtractProduct<T>({u + at * n + end, 1, n, true}, u + at * n + end, n, end - at, u + end * n + end, n, n - end,
                       n - end, true, packed, pool);
  }
  return true;
}

// m y = b in place for the triangular matrix m.
template <class T>
void Substitute(const Factor<T>& m, bool forward, bool unit, T* y, int64_t n, int64_t sides, T* packed,
                ThreadPool& pool) {
  Coefficients<T> coefficients;
  const int64_t block = BlockFor(n), blocks = (n + block - 1) / block;
  for (int64_t step = 0; step < blocks; ++step) {
    const int64_t at = (forward ? step : blocks - 1 - step) * block, end = std::min(n, at + block);
    for (int64_t done = 0; done < end - at; done += kUpdateRows) {
      const int64_t count = std::min(kUpdateRows, end - at - done);
      // The group's first row, and the first of the block's rows that are solved.
      const int64_t group = forward ? at + done : end - done - count, solved = forward ? at : end - done;
      for (int64_t p = 0; p < done; ++p)
        for (int64_t r = 0; r < count; ++r) coefficients(p, r) = m(group + r, solved + p);
      if (done > 0) Update(coefficients, y + solved * sides, sides, done, y + group * sides, sides, count, sides);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t row = forward ? group + i : group + count - 1 - i, first = forward ? group : row + 1;
        for (int64_t p = 0; p < i; ++p) coefficients(p, 0) = m(row, first + p);
        if (i > 0) Update(coefficients, y + first * sides, sides, i, y + row * sides, sides, 1, sides);
        if (!unit) DivideAll(y + row * sides, sides, m(row, row));
      }
    }
    const int64_t left_begin = forward ? end : 0, left_end = forward ? n : at;
    SubtractProduct<T>(m.At(left_begin, at), y + at * sides, sides, end - at, y + left_begin * sides, sides,
                       left_end - left_begin, sides, false, packed, pool);
  }
}

}  // namespace

template <class T>
void Cholesky(const plan::LinalgKernel& k, const T* a, T* out, T* work, T* packed, ThreadPool& pool) {
  const int64_t n = k.rows;
  for (int64_t r = 0; r < n; ++r) {
    std::fill(work + r * n, work + r * n + r, T(0));
    for (int64_t c = r; c < n; ++c) work[r * n + c] = k.lower ? Conj(a[c * n + r]) : a[r * n + c];
  }
  const bool good = FactorUpper(work, n, packed, pool);
  const T nan = std::numeric_limits<typename RealOf<T>::Type>::quiet_NaN();
  for (int64_t r = 0; r < n; ++r)
    for (int64_t c = 0; c < n; ++c) {
      const bool inside = k.lower ? c <= r : c >= r;
      T v = !inside ? T(0) : k.lower ? Conj(work[c * n + r]) : work[r * n + c];
      if (inside && !good) v = nan;
      out[r * n + c] = v;
    }
}

template <class T>
void TriangularSolve(const plan::LinalgKernel& k, const T* a, const T* b, T* x, T* work, T* packed, ThreadPool& pool) {
  const int64_t n = k.left_side ? k.rows : k.columns, sides = k.left_side ? k.columns : k.rows;
  // x op(a) = b is op(a)^T x^T = b^T.
  T* y = k.left_side ? x : work;
  if (k.left_side) {
    if (x != b) std::copy(b, b + n * sides, y);
  } else {
    for (int64_t s = 0; s < sides; ++s)
      for (int64_t r = 0; r < n; ++r) y[r * sides + s] = b[s * n + r];
  }
  const bool turned = k.left_side != (k.transpose == TriangularTranspose::kNoTranspose);
  const bool conjugate = k.transpose == TriangularTranspose::kAdjoint;
  const Factor<T> m = turned ? Factor<T>{a, 1, n, conjugate} : Factor<T>{a, n, 1, conjugate};
  Substitute(m, k.lower != turned, k.unit_diagonal, y, n, sides, packed, pool);
  if (!k.left_side)
    for (int64_t s = 0; s < sides; ++s)
      for (int64_t r = 0; r < n; ++r) x[s * n + r] = y[r * sides + s];
}

#define KRAFLA_INSTANTIATE(T)                                                              \
  template void Cholesky<T>(const plan::LinalgKernel&, const T*, T*, T*, T*, ThreadPool&); \
  template void TriangularSolve<T>(const plan::LinalgKernel&, const T*, const T*, T*, T*, T*, ThreadPool&);
KRAFLA_FOR_NUMBERS(KRAFLA_INSTANTIATE)
#undef KRAFLA_INSTANTIATE

}  // namespace krafla::cpu::linalg
