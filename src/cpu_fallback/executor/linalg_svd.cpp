// SPDX-License-Identifier: Apache-2.0
// Singular values: of tall matrices those of R (LAPACK: gesdd), a real bidiagonal matrix by reflectors from both sides
// (gebd2), then implicit QR steps on it (Golub and Kahan), without a shift where a singular value is nothing beside the
// largest.
#include <limits>
#include <numeric>

#include "cpu_fallback/executor/linalg_algorithms.h"
#include "cpu_fallback/executor/linalg_rotations.h"

namespace krafla::cpu::linalg {

namespace {

constexpr int64_t kStepsASingularValue = 40;

// A matrix of at least as many rows as columns, and what becomes of it.
template <class T>
struct Bidiagonal {
  int64_t rows = 0, columns = 0;
  T* a = nullptr;     // row k keeps the right reflector k behind the diagonal
  T* left = nullptr;  // row k: the left reflector k, of rows - k numbers
  T *left_taus = nullptr, *right_taus = nullptr;
  double *diagonal = nullptr, *beside = nullptr;
};

// a = Q B P^H. `row`: scratch for a row.
template <class T>
void Bidiagonalize(const Bidiagonal<T>& m, T* row) {
  using R = typename RealOf<T>::Type;
  const int64_t n = m.columns;
  Coefficients<T> coefficients;
  for (int64_t k = 0; k < n; ++k) {
    T* v = m.left + k * m.rows;
    const int64_t below = m.rows - k, right = n - k - 1;
    for (int64_t r = 0; r < below; ++r) v[r] = m.a[(k + r) * n + k];
    const ReflectorOf<T> h = MakeReflectorOf(v, below);
    m.diagonal[k] = h.beta;
    m.left_taus[k] = h.tau;
    m.right_taus[k] = T(0);
    if (right == 0) break;
    T* next = m.a + k * n + k + 1;
    if (h.tau != T(0)) Reflect(v, Conj(h.tau), next, n, below, right, row);
    for (int64_t c = 0; c < right; ++c) next[c] = Conj(next[c]);
    const ReflectorOf<T> g = MakeReflectorOf(next, right);
    m.beside[k] = g.beta;
    m.right_taus[k] = g.tau;
    if (g.tau == T(0)) continue;
    for (int64_t c = 0; c < right; ++c) row[c] = Conj(next[c]);
    for (int64_t r = k + 1; r < m.rows; r += kUpdateRows) {
      const int64_t count = std::min(kUpdateRows, m.rows - r);
      for (int64_t i = 0; i < count; ++i) {
        T sum = T(0);
        DotRows<R>(kIsComplex<T>, reinterpret_cast<const R*>(m.a + (r + i) * n + k + 1),
                   reinterpret_cast<const R*>(next), right, reinterpret_cast<R*>(&sum));
        coefficients(0, i) = Mul(g.tau, sum);
      }
      Update(coefficients, row, n, 1, m.a + r * n + k + 1, n, count, right);
    }
  }
}

// The singular values into `diagonal`, of any sign; rotations go to the rows of `u` and `v`, unless they are null.
template <class T>
bool BidiagonalQr(const Bidiagonal<T>& m, int64_t u_size, const RotationList<typename RealOf<T>::Type>& left,
                  const RotationList<typename RealOf<T>::Type>& right, T* u, T* v) {
  constexpr double kEps = std::numeric_limits<typename RealOf<T>::Type>::epsilon() / 2;
  double *d = m.diagonal, *e = m.beside;
  int64_t steps_left = kStepsASingularValue * m.columns;
  for (int64_t high = m.columns - 1; high > 0;) {
    const int64_t low = FirstOfPart(d, e, high, kEps);
    if (low == high) {
      --high;
      continue;
    }
    if (steps_left-- == 0) return false;
    double least = HUGE_VAL, most = 0;
    for (int64_t k = low; k <= high; ++k) {
      least = std::min(least, std::abs(d[k]));
      most = std::max(most, std::abs(d[k]));
    }
    double y = d[low], z = e[low];
    if (least > kEps * most) {
      // The eigenvalue of the last 2 x 2 of B^T B that is nearer to its last number.
      const double before = high - 1 > low ? e[high - 2] : 0;
      const double first = d[high - 1] * d[high - 1] + before * before,
                   second = d[high] * d[high] + e[high - 1] * e[high - 1];
      const double across = d[high - 1] * e[high - 1], delta = (first - second) / 2;
      const double away = delta + std::copysign(std::sqrt(delta * delta + across * across), delta);
      const double shift = second - (away == 0 ? 0 : across * across / away);
      y = d[low] - shift / d[low];
    }
    for (int64_t k = low; k < high; ++k) {
      const Rotation g = MakeRotation(y, z);
      if (k > low) e[k - 1] = g.r;
      y = g.c * d[k] + g.s * e[k];
      e[k] = g.c * e[k] - g.s * d[k];
      z = g.s * d[k + 1];
      d[k + 1] *= g.c;
      right.Set(k, g.c, g.s);
      const Rotation h = MakeRotation(y, z);
      d[k] = h.r;
      y = h.c * e[k] + h.s * d[k + 1];
      d[k + 1] = h.c * d[k + 1] - h.s * e[k];
      if (k + 1 < high) {
        z = h.s * e[k + 1];
        e[k + 1] *= h.c;
      }
      left.Set(k, h.c, h.s);
    }
    e[high - 1] = y;
    if (u != nullptr) RotateNumbers<T>(left, low, high - low, u, u_size);
    if (v != nullptr) RotateNumbers<T>(right, low, high - low, v, m.columns);
  }
  return true;
}

// Reflectors whose vectors lie `stride` numbers apart; number k acts on the rows from k + later on.
template <class T>
struct ReflectorRows {
  const T* vectors = nullptr;
  int64_t stride = 0, later = 0, count = 0;
  const T* taus = nullptr;
};
// The product of the reflectors times rows and columns [0, rows) and [0, columns) of q, which are the identity where
// they have not been worked on.
template <class T>
void ReflectFromLeft(const ReflectorRows<T>& h, T* q, int64_t stride, int64_t rows, int64_t columns, bool identity,
                     T* row) {
  for (int64_t k = h.count - 1; k >= 0; --k) {
    const int64_t first = k + h.later, column = identity ? first : 0;
    if (h.taus[k] != T(0))
      Reflect(h.vectors + k * h.stride, h.taus[k], q + first * stride + column, stride, rows - first, columns - column,
              row);
  }
}
template <class T>
void SetIdentity(T* q, int64_t rows, int64_t columns) {
  std::fill(q, q + rows * columns, T(0));
  for (int64_t i = 0; i < std::min(rows, columns); ++i) q[i * columns + i] = 1;
}
template <class T>
void Transpose(const T* q, int64_t rows, int64_t columns, T* out) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) out[c * rows + r] = q[r * columns + c];
}

// Whether R is worth its own reflectors.
bool IsTall(int64_t m, int64_t n) { return m > n + n / 2; }

// R in the first n rows of a (m x n), zeros below its diagonal; the reflectors in rows of `vectors`, m numbers each.
// `row`: m.
template <class T>
void ReduceToR(T* a, int64_t m, int64_t n, T* vectors, T* taus, T* row) {
  Transpose(a, m, n, vectors);
  FactorColumns(vectors, m, m, n, taus, row);
  for (int64_t c = 0; c < n; ++c) {
    T* v = vectors + c * m;
    for (int64_t r = 0; r < n; ++r) a[r * n + c] = r <= c ? v[r] : T(0);
    v[c] = 1;
  }
}

}  // namespace

template <class T>
int64_t SvdBytes(const plan::LinalgKernel& k) {
  const int64_t m = std::max(k.rows, k.columns), n = std::min(k.rows, k.columns), u = k.full ? m : n;
  int64_t bytes = WorkMemory::Bytes<T>(m * n) * 2 + WorkMemory::Bytes<T>(n) * 2 + WorkMemory::Bytes<T>(m) +
                  WorkMemory::Bytes<double>(n) * 2 + WorkMemory::Bytes<double>(n) * 4 + WorkMemory::Bytes<int64_t>(n);
  if (IsTall(m, n)) bytes += WorkMemory::Bytes<T>(n * n) + WorkMemory::Bytes<T>(n);
  if (k.vectors) bytes += WorkMemory::Bytes<T>(m * u) * 2 + WorkMemory::Bytes<T>(n * n);
  return bytes;
}

template <class T>
void Svd(const plan::LinalgKernel& k, const T* in, typename RealOf<T>::Type* values, T* u, T* vh, std::byte* work) {
  using R = typename RealOf<T>::Type;
  const bool wide = k.rows < k.columns;  // then its adjoint is worked on
  const int64_t m = std::max(k.rows, k.columns), n = std::min(k.rows, k.columns), u_count = k.full ? m : n;
  WorkMemory memory(work);
  const bool tall = IsTall(m, n);
  Bidiagonal<T> b{tall ? n : m, n};
  b.a = memory.Take<T>(m * n);
  T *outer = memory.Take<T>(m * n), *outer_taus = memory.Take<T>(n);
  b.left = tall ? memory.Take<T>(n * n) : outer;
  b.left_taus = tall ? memory.Take<T>(n) : outer_taus;
  b.right_taus = memory.Take<T>(n);
  T* row = memory.Take<T>(m);
  b.diagonal = memory.Take<double>(n);
  b.beside = memory.Take<double>(n);
  const auto list = [&] { return reinterpret_cast<R*>(memory.Take<double>(n)); };
  const RotationList<R> left{list(), list()}, right{list(), list()};
  int64_t* order = memory.Take<int64_t>(n);
  // The columns of U and V, in rows.
  T *us = nullptr, *vs = nullptr, *q = nullptr;
  if (k.vectors) us = memory.Take<T>(m * u_count), q = memory.Take<T>(m * u_count), vs = memory.Take<T>(n * n);

  const double largest = LargestPart<T>({in, static_cast<std::size_t>(m * n)}), scale = ScaleOf(largest);
  bool good = std::isfinite(largest);
  if (good) {
    for (int64_t r = 0; r < m; ++r)
      for (int64_t c = 0; c < n; ++c) b.a[r * n + c] = Scaled(wide ? Conj(in[c * m + r]) : in[r * n + c], scale);
    if (tall) ReduceToR(b.a, m, n, outer, outer_taus, row);
    Bidiagonalize(b, row);
    if (k.vectors) {
      SetIdentity(q, m, u_count);
      ReflectFromLeft<T>({b.left, b.rows, 0, n, b.left_taus}, q, u_count, b.rows, tall ? n : u_count, true, row);
      if (tall) ReflectFromLeft<T>({outer, m + 1, 0, n, outer_taus}, q, u_count, m, u_count, false, row);
      Transpose(q, m, u_count, us);
      SetIdentity(q, n, n);
      ReflectFromLeft<T>({b.a + 1, n + 1, 1, n - 1, b.right_taus}, q, n, n, n, true, row);
      Transpose(q, n, n, vs);
    }
    good = BidiagonalQr(b, m, left, right, us, vs);
  }
  const int64_t v_count = k.full ? m : n;
  if (!good) {
    const R nan = std::numeric_limits<R>::quiet_NaN();
    std::fill(values, values + n, nan);
    if (!k.vectors) return;
    std::fill(u, u + k.rows * (wide ? n : u_count), T(nan));
    std::fill(vh, vh + k.columns * (wide ? v_count : n), T(nan));
    return;
  }
  std::iota(order, order + n, int64_t{0});
  std::sort(order, order + n, [&](int64_t x, int64_t y) { return std::abs(b.diagonal[x]) > std::abs(b.diagonal[y]); });
  for (int64_t i = 0; i < n; ++i) values[i] = static_cast<R>(std::abs(b.diagonal[order[i]]) / scale);
  if (!k.vectors) return;
  // A = us^T B conj(vs), or with both exchanged and conjugated: a negative value turns its row of vs.
  for (int64_t i = 0; i < n; ++i) {
    if (b.diagonal[i] >= 0) continue;
    for (int64_t c = 0; c < n; ++c) vs[i * n + c] = -vs[i * n + c];
  }
  const auto number = [&](int64_t i) { return i < n ? order[i] : i; };
  const T *columns = wide ? vs : us, *adjoint = wide ? us : vs;
  const int64_t u_columns = wide ? n : u_count, v_rows = wide ? v_count : n;
  for (int64_t r = 0; r < k.rows; ++r)
    for (int64_t c = 0; c < u_columns; ++c) u[r * u_columns + c] = columns[number(c) * k.rows + r];
  for (int64_t r = 0; r < v_rows; ++r)
    for (int64_t c = 0; c < k.columns; ++c) vh[r * k.columns + c] = Conj(adjoint[number(r) * k.columns + c]);
}

#define KRAFLA_INSTANTIATE(T)                              \
  template int64_t SvdBytes<T>(const plan::LinalgKernel&); \
  template void Svd<T>(const plan::LinalgKernel&, const T*, RealOf<T>::Type*, T*, T*, std::byte*);
KRAFLA_FOR_NUMBERS(KRAFLA_INSTANTIATE)
#undef KRAFLA_INSTANTIATE

}  // namespace krafla::cpu::linalg
