// SPDX-License-Identifier: Apache-2.0
// The inner loop of dense linear algebra: rows minus combinations of other rows. Numbers are f32, f64, or pairs of
// them.
#pragma once

#include <cstdint>

namespace krafla::cpu {

inline constexpr int64_t kUpdateRows = 4;

// to[r, c] -= sum over k < depth of coefficients[k * kUpdateRows + r] * from[k, c], for rows <= kUpdateRows rows of
// `columns` numbers. Strides in numbers. T is float or double; complex numbers are pairs of them.
template <class T>
void UpdateRows(bool complex, const T* coefficients, const T* from, int64_t from_stride, int64_t depth, T* to,
                int64_t to_stride, int64_t rows, int64_t columns);

// Plane rotations of neighbouring rows, one after the other from `first` on: rotation i makes
// (c x + s y, c y - s x) of rows i = x and i + 1 = y.
template <class T>
void RotateRows(const T* cosines, const T* sines, int64_t first, int64_t count, T* rows, int64_t stride,
                int64_t columns);

// The sum of x[i] y[i]; of complex numbers, `count` pairs, into both parts of `sum`.
template <class T>
void DotRows(bool complex, const T* x, const T* y, int64_t count, T* sum);

// A reflector on at most kUpdateRows rows of `columns` numbers each: rows[r] -= tau (sum of v[i] rows[r][i]) v.
template <class T>
void ReflectRows(const T* v, T tau, T* rows, int64_t stride, int64_t count, int64_t columns);

// In double: the sum of row[i]^2, and row[i] *= by, which is rounded once.
template <class T>
double SumOfSquares(const T* row, int64_t count);
template <class T>
void ScaleRow(T* row, int64_t count, double by);

// row[i] /= by, and out[i] = -row[i]; of T float or double.
template <class T>
void DivideRow(T* row, int64_t count, T by);
template <class T>
void NegateRow(const T* row, int64_t count, T* out);

}  // namespace krafla::cpu
