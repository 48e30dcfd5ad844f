// SPDX-License-Identifier: Apache-2.0
// LU factors with partial pivoting: panels of kBlock columns, halved until they are a few columns wide (Toledo,
// "Locality of reference in LU decomposition with partial pivoting"), then the rows to their right and the rest. Pivots
// are LAPACK's (getrf): the first largest |re| + |im| of a column; a column of zeros is passed over.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "cpu_fallback/executor/linalg_algorithms.h"
#include "cpu_fallback/executor/linalg_numbers.h"

namespace krafla::cpu::linalg {

namespace {

constexpr int64_t kNarrowPanel = 4;

template <class T>
auto PivotMagnitude(T x) {
  if constexpr (kIsComplex<T>) return std::abs(x.real()) + std::abs(x.imag());
  else return std::abs(x);
}

template <class T>
struct LuMatrix {
  T* a;
  int64_t rows, columns;
  int32_t* pivots;
  T* Row(int64_t r) const { return a + r * columns; }
};

// Exchanges row k with its pivot's and subtracts multiples of it from the rows below, in columns k + 1 to `last`; the
// quotients stay in column k.
template <class T>
void EliminateColumn(const LuMatrix<T>& m, int64_t k, int64_t last) {
  int64_t pivot = k;
  auto largest = PivotMagnitude(m.Row(k)[k]);
  for (int64_t r = k + 1; r < m.rows; ++r)
    if (const auto here = PivotMagnitude(m.Row(r)[k]); here > largest) largest = here, pivot = r;
  m.pivots[k] = static_cast<int32_t>(pivot);
  if (pivot != k) std::swap_ranges(m.Row(k), m.Row(k) + m.columns, m.Row(pivot));
  const T* top = m.Row(k);
  const T diagonal = top[k];
  if (diagonal == T(0)) return;
  for (int64_t r = k + 1; r < m.rows; ++r) {
    T* row = m.Row(r);
    const T quotient = row[k] = Divide(row[k], diagonal);
    for (int64_t c = k + 1; c < last; ++c) row[c] -= Mul(quotient, top[c]);
  }
}

// Rows [first, last) of columns [begin, end), which are to become U: unit lower substitution with columns [first,
// last).
template <class T>
void SolveRows(const LuMatrix<T>& m, int64_t first, int64_t last, int64_t begin, int64_t end) {
  if (begin >= end) return;
  Coefficients<T> coefficients;
  for (int64_t row = first; row < last; row += kUpdateRows) {
    const int64_t count = std::min(kUpdateRows, last - row);
    if (row > first) {
      for (int64_t k = first; k < row; ++k)
        for (int64_t r = 0; r < count; ++r) coefficients(k - first, r) = m.Row(row + r)[k];
      Update(coefficients, m.Row(first) + begin, m.columns, row - first, m.Row(row) + begin, m.columns, count,
             end - begin);
    }
    for (int64_t r = 1; r < count; ++r) {
      for (int64_t k = 0; k < r; ++k) coefficients(k, 0) = m.Row(row + r)[row + k];
      Update(coefficients, m.Row(row) + begin, m.columns, r, m.Row(row + r) + begin, m.columns, 1, end - begin);
    }
  }
}

// Columns [first, last), last - first at most kBlock, of the rows from `first` on.
template <class T>
void FactorPanel(const LuMatrix<T>& m, int64_t first, int64_t last, T* packed, ThreadPool& pool) {
  if (last - first <= kNarrowPanel) {
    for (int64_t k = first; k < last; ++k) EliminateColumn(m, k, last);
    return;
  }
  const int64_t middle = first + (last - first) / 2;
  FactorPanel(m, first, middle, packed, pool);
  SolveRows(m, first, middle, middle, last);
  SubtractProduct<T>({m.Row(middle) + first, m.columns, 1}, m.Row(first) + middle, m.columns, middle - first,
                     m.Row(middle) + middle, m.columns, m.rows - middle, last - middle, false, packed, pool);
  FactorPanel(m, middle, last, packed, pool);
}

}  // namespace

template <class T>
void Lu(const plan::LinalgKernel& k, const T* a, T* lu, int32_t* pivots, int32_t* permutation, T* packed,
        ThreadPool& pool) {
  std::copy(a, a + k.rows * k.columns, lu);
  const LuMatrix<T> m{lu, k.rows, k.columns, pivots};
  const int64_t least = std::min(k.rows, k.columns);
  for (int64_t first = 0; first < least; first += kBlock) {
    const int64_t last = std::min(least, first + kBlock);
    FactorPanel(m, first, last, packed, pool);
    SolveRows(m, first, last, last, k.columns);
    SubtractProduct<T>({m.Row(last) + first, m.columns, 1}, m.Row(first) + last, m.columns, last - first,
                       m.Row(last) + last, m.columns, m.rows - last, m.columns - last, false, packed, pool);
  }
  std::iota(permutation, permutation + k.rows, 0);
  for (int64_t i = 0; i < least; ++i) std::swap(permutation[i], permutation[pivots[i]]);
}

#define KRAFLA_INSTANTIATE(T) \
  template void Lu<T>(const plan::LinalgKernel&, const T*, T*, int32_t*, int32_t*, T*, ThreadPool&);
KRAFLA_FOR_NUMBERS(KRAFLA_INSTANTIATE)
#undef KRAFLA_INSTANTIATE

}  // namespace krafla::cpu::linalg
