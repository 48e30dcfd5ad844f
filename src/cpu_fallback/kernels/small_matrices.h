// SPDX-License-Identifier: Apache-2.0
// Batches of small matrices, a matrix a vector lane: what one matrix has no vectors for. T is float or double; of
// complex matrices numbers are pairs of them.
#pragma once

#include <cstdint>

namespace krafla::cpu {

inline constexpr int64_t kMostSmallNumbers = 1024;  // of one matrix; a complex number is two
inline constexpr int64_t kMostLanes = 16;

// The factor of each n x n matrix; zeros in the other triangle, NaN in its own where it is not positive definite.
template <class T>
void CholeskyOfSmall(bool complex, const T* a, T* out, int64_t n, bool lower, int64_t count);

// As LAPACK's getrf: the factors, the row that each of the first min(rows, columns) was exchanged with, and where each
// row comes from.
template <class T>
void LuOfSmall(bool complex, const T* a, T* lu, int32_t* pivots, int32_t* permutation, int64_t rows, int64_t columns,
               int64_t count);

// m y = b, m triangular n x n. The number m(r, c) is a[r, c], or a[c, r] if `turned`; y(r, s) is x[r, s], or x[s, r]
// unless `by_rows`.
struct SmallSystem {
  int64_t n = 0, sides = 0;
  bool turned = false, conjugate = false, forward = true, unit = false, by_rows = true;
};
template <class T>
void SolveSmall(bool complex, const SmallSystem& system, const T* a, const T* b, T* x, int64_t count);

}  // namespace krafla::cpu
