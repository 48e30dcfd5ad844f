// SPDX-License-Identifier: Apache-2.0
// Householder QR as LAPACK's geqrf and orgqr define it. kPanel reflectors at a time are one block I - V T V^H
// (Schreiber and Van Loan, "A storage-efficient WY representation for products of Householder transformations").
#include "cpu_fallback/executor/linalg_algorithms.h"
#include "cpu_fallback/executor/linalg_rotations.h"
#include "cpu_fallback/kernels/move.h"

namespace krafla::cpu::linalg {

namespace {

constexpr int64_t kPanel = 16;
// A matrix of no more columns is one panel: blocks of what is left have less than a vector of columns.
constexpr int64_t kOnePanel = 32;

// The reflectors [first, first + count) of a matrix of `rows` rows.
template <class T>
struct ReflectorBlock {
  int64_t rows = 0, count = 0;               // of v
  T* v = nullptr;                            // rows x kPanel: unit lower trapezoidal
  T* t = nullptr;                            // kPanel x kPanel, upper triangular
  T *product = nullptr, *scratch = nullptr;  // kPanel rows of the matrix that it is applied to
};

template <class T>
struct BlockMemory {
  static int64_t Numbers(int64_t rows, int64_t columns) {
    return rows * kPanel + kPanel * kPanel + 2 * kPanel * columns + rows + columns;
  }
};

// to[c, r] = from[r, c]
template <class T>
void Turn(const T* from, int64_t stride, int64_t rows, int64_t columns, T* to, int64_t to_stride) {
  if constexpr (sizeof(T) <= 8) {
    MoveTile(sizeof(T), reinterpret_cast<const std::byte*>(from), {stride, 1}, reinterpret_cast<std::byte*>(to),
             {1, to_stride}, rows, columns);
  } else {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) to[c * to_stride + r] = from[r * stride + c];
  }
}

// v and t from column `first` on of the packed reflectors in a.
template <class T>
ReflectorBlock<T> MakeBlock(const T* a, int64_t stride, int64_t all_rows, int64_t first, int64_t count, const T* taus,
                            int64_t columns, T* work, T* packed, ThreadPool& pool) {
  ReflectorBlock<T> b;
  b.rows = all_rows - first;
  b.count = count;
  b.v = work;
  b.t = b.v + b.rows * kPanel;
  b.product = b.t + kPanel * kPanel;
  b.scratch = b.product + kPanel * columns;
  for (int64_t r = 0; r < b.rows; ++r)
    for (int64_t c = 0; c < count; ++c)
      b.v[r * kPanel + c] = r < c ? T(0) : r == c ? T(1) : a[(first + r) * stride + first + c];
  // t = -v^H v, of which the upper triangle becomes T column by column.
  std::fill(b.t, b.t + kPanel * kPanel, T(0));
  for (int64_t at = 0; at < b.rows; at += kBlock)
    SubtractProduct<T>({b.v + at * kPanel, 1, kPanel, true}, b.v + at * kPanel, kPanel, std::min(kBlock, b.rows - at),
                       b.t, kPanel, count, count, false, packed, pool);
  for (int64_t j = 0; j < count; ++j) {
    const T tau = taus[first + j];
    for (int64_t i = 0; i < j; ++i) {  // by rows from the top: those below are products still
      T sum = T(0);
      for (int64_t k = i; k < j; ++k) sum += Mul(b.t[i * kPanel + k], b.t[k * kPanel + j]);
      b.t[i * kPanel + j] = Mul(tau, sum);
      b.t[j * kPanel + i] = T(0);
    }
    b.t[j * kPanel + j] = tau;
  }
  return b;
}

// a = H a or, `adjoint`, H^H a for the block's rows of a.
template <class T>
void ApplyBlock(const ReflectorBlock<T>& b, bool adjoint, T* a, int64_t stride, int64_t columns, T* packed,
                ThreadPool& pool) {
  if (columns <= 0) return;
  std::fill(b.product, b.product + b.count * columns, T(0));
  for (int64_t at = 0; at < b.rows; at += kBlock)
    SubtractProduct<T>({b.v + at * kPanel, 1, kPanel, true}, a + at * stride, stride, std::min(kBlock, b.rows - at),
                       b.product, columns, b.count, columns, false, packed, pool);
  // scratch = T (v^H a) or T^H (v^H a); product is -v^H a.
  const Factor<T> t = adjoint ? Factor<T>{b.t, 1, kPanel, true} : Factor<T>{b.t, kPanel, 1, false};
  std::fill(b.scratch, b.scratch + b.count * columns, T(0));
  SubtractProduct<T>(t, b.product, columns, b.count, b.scratch, columns, b.count, columns, false, packed, pool);
  SubtractProduct<T>({b.v, kPanel, 1}, b.scratch, columns, b.count, a, stride, b.rows, columns, false, packed, pool);
}

}  // namespace

template <class T>
ReflectorOf<T> MakeReflectorOf(T* x, int64_t count) {
  using Wide = std::conditional_t<kIsComplex<T>, std::complex<double>, double>;
  using R = typename RealOf<T>::Type;
  constexpr int64_t kParts = kIsComplex<T> ? 2 : 1;
  const double tail = SumOfSquares<R>(reinterpret_cast<const R*>(x + 1), kParts * (count - 1));
  if (tail + Square(Wide(x[0])) < 1e-200) {
    // v is the same for multiples of x.
    const double scale = ScaleOf(LargestPart<T>({x, static_cast<std::size_t>(count)}));
    if (scale > 1e90) {
      for (int64_t i = 0; i < count; ++i) x[i] = Scaled(x[i], scale);
      ReflectorOf<T> out = MakeReflectorOf(x, count);
      out.beta /= scale;
      return out;
    }
  }
  const Wide alpha = x[0];
  double imaginary = 0;
  if constexpr (kIsComplex<T>) imaginary = alpha.imag();
  ReflectorOf<T> out;
  x[0] = 1;
  out.beta = Real(alpha);
  if (tail == 0 && imaginary == 0) return out;
  out.beta = -std::copysign(std::sqrt(tail + Square(alpha)), Real(alpha));
  if constexpr (kIsComplex<T>)
    out.tau = T(std::complex<double>((out.beta - alpha.real()) / out.beta, -alpha.imag() / out.beta));
  else out.tau = static_cast<T>((out.beta - alpha) / out.beta);
  const Wide scale = Divide(Wide(1), Wide(alpha - out.beta));
  if constexpr (!kIsComplex<T>) {
    ScaleRow<T>(x + 1, count - 1, scale);
  } else {
    for (int64_t i = 1; i < count; ++i) x[i] = T(Mul(Wide(x[i]), scale));
  }
  return out;
}

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

template <class T>
void FactorColumns(T* columns, int64_t stride, int64_t rows, int64_t count, T* taus, T* scratch) {
  using R = typename RealOf<T>::Type;
  Coefficients<T> coefficients;
  for (int64_t c = 0; c < std::min(rows, count); ++c) {
    T* v = columns + c * stride + c;
    const int64_t size = rows - c;
    const ReflectorOf<T> h = MakeReflectorOf(v, size);
    taus[c] = h.tau;
    if (h.tau != T(0)) {
      const T* adjoint = v;
      if constexpr (kIsComplex<T>) {
        for (int64_t i = 0; i < size; ++i) scratch[i] = Conj(v[i]);
        adjoint = scratch;
      }
      for (int64_t next = c + 1; next < count; next += kUpdateRows) {
        const int64_t now = std::min(kUpdateRows, count - next);
        if constexpr (!kIsComplex<T>) {
          ReflectRows<T>(v, h.tau, columns + next * stride + c, stride, now, size);
          continue;
        }
        for (int64_t i = 0; i < now; ++i) {
          T sum = T(0);
          DotRows<R>(kIsComplex<T>, reinterpret_cast<const R*>(adjoint),
                     reinterpret_cast<const R*>(columns + (next + i) * stride + c), size, reinterpret_cast<R*>(&sum));
          coefficients(0, i) = Mul(Conj(h.tau), sum);
        }
        Update(coefficients, v, size, 1, columns + next * stride + c, stride, now, size);
      }
    }
    v[0] = static_cast<R>(h.beta);
  }
}

template <class T>
int64_t QrNumbers(const plan::LinalgKernel& k) {
  return BlockMemory<T>::Numbers(k.rows, k.columns) + std::max(kPanel, std::min(kOnePanel, k.columns)) * k.rows;
}

template <class T>
void Qr(const plan::LinalgKernel& k, const T* in, T* a, T* taus, T* work, T* packed, ThreadPool& pool) {
  const int64_t m = k.rows, n = k.columns;
  std::copy(in, in + m * n, a);
  const int64_t most = n <= kOnePanel ? std::max(n, kPanel) : kPanel;
  T *panel = work, *rest = work + most * m;
  for (int64_t first = 0; first < k.reflectors; first += most) {
    const int64_t rows = m - first, columns = n <= kOnePanel ? n - first : std::min(kPanel, n - first);
    const int64_t count = std::min(columns, k.reflectors - first), end = first + columns;
    T* corner = a + first * n + first;
    Turn(corner, n, rows, columns, panel, rows);
    FactorColumns(panel, rows, rows, columns, taus + first, rest);
    Turn(panel, rows, columns, rows, corner, n);
    if (end == n) break;
    const ReflectorBlock<T> block = MakeBlock(a, n, m, first, count, taus, n, rest, packed, pool);
    ApplyBlock(block, true, corner + columns, n, n - end, packed, pool);
  }
}

namespace {

// The product of the reflectors, whose vectors are the rows of `columns`, in their place: LAPACK's org2r, turned.
template <class T>
void ProductOfColumns(T* columns, int64_t rows, int64_t count, int64_t reflectors, const T* taus) {
  for (int64_t c = count - 1; c >= 0; --c) {
    T* v = columns + c * rows;
    std::fill(v, v + c, T(0));
    if (c >= reflectors) {
      std::fill(v + c + 1, v + rows, T(0));
      v[c] = 1;
      continue;
    }
    v[c] = 1;
    for (int64_t next = c + 1; next < count; next += kUpdateRows)
      ReflectRows<T>(v + c, taus[c], columns + next * rows + c, rows, std::min(kUpdateRows, count - next), rows - c);
    ScaleRow<T>(v + c + 1, rows - c - 1, -static_cast<double>(taus[c]));
    v[c] = 1 - taus[c];
  }
}

}  // namespace

template <class T>
void HouseholderProduct(const plan::LinalgKernel& k, const T* a, const T* taus, T* q, T* work, T* packed,
                        ThreadPool& pool) {
  const int64_t m = k.rows, n = k.columns;
  if constexpr (!kIsComplex<T>) {
    if (n <= std::min(m, kOnePanel)) {
      Turn(a, n, m, n, work, m);
      ProductOfColumns(work, m, n, k.reflectors, taus);
      Turn(work, m, n, m, q, n);
      return;
    }
  }
  std::fill(q, q + m * n, T(0));
  for (int64_t d = 0; d < std::min(m, n); ++d) q[d * n + d] = 1;
  const int64_t panels = (k.reflectors + kPanel - 1) / kPanel;
  for (int64_t panel = panels - 1; panel >= 0; --panel) {
    const int64_t first = panel * kPanel, end = std::min(k.reflectors, first + kPanel);
    if (end - first >= 4 && n - first > kUpdateRows) {
      const ReflectorBlock<T> block = MakeBlock(a, n, m, first, end - first, taus, n, work, packed, pool);
      ApplyBlock(block, false, q + first * n + first, n, n - first, packed, pool);
      continue;
    }
    for (int64_t c = end - 1; c >= first; --c) {
      T *v = work, *row = work + m;
      v[0] = 1;
      for (int64_t r = c + 1; r < m; ++r) v[r - c] = a[r * n + c];
      Reflect(v, taus[c], q + c * n + c, n, m - c, n - c, row);
    }
  }
}

#define KRAFLA_INSTANTIATE(T)                                                            \
  template ReflectorOf<T> MakeReflectorOf<T>(T*, int64_t);                               \
  template void Reflect<T>(const T*, T, T*, int64_t, int64_t, int64_t, T*);              \
  template void FactorColumns<T>(T*, int64_t, int64_t, int64_t, T*, T*);                 \
  template int64_t QrNumbers<T>(const plan::LinalgKernel&);                              \
  template void Qr<T>(const plan::LinalgKernel&, const T*, T*, T*, T*, T*, ThreadPool&); \
  template void HouseholderProduct<T>(const plan::LinalgKernel&, const T*, const T*, T*, T*, T*, ThreadPool&);
KRAFLA_FOR_NUMBERS(KRAFLA_INSTANTIATE)
#undef KRAFLA_INSTANTIATE

}  // namespace krafla::cpu::linalg
