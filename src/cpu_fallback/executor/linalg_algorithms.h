// SPDX-License-Identifier: Apache-2.0
// One row-major matrix each, in the type that is computed in: T is float, double or complex of them. The threads share
// large matrices.
#pragma once

#include <cstddef>

#include "cpu_fallback/executor/linalg_numbers.h"
#include "plan/kernel_plan.h"

namespace krafla::cpu::linalg {

// `work`: rows * columns numbers; `packed`: PackedNumbers(columns) (linalg_numbers.h).
template <class T>
void Cholesky(const plan::LinalgKernel& k, const T* a, T* out, T* work, T* packed, ThreadPool& pool);
// `packed`: PackedNumbers(max(rows, columns)).
template <class T>
void TriangularSolve(const plan::LinalgKernel& k, const T* a, const T* b, T* x, T* work, T* packed, ThreadPool& pool);
// `packed`: PackedNumbers(columns).
template <class T>
void Lu(const plan::LinalgKernel& k, const T* a, T* lu, int32_t* pivots, int32_t* permutation, T* packed,
        ThreadPool& pool);
// `work`: QrNumbers; `packed`: PackedNumbers(columns).
template <class T>
int64_t QrNumbers(const plan::LinalgKernel& k);
template <class T>
void Qr(const plan::LinalgKernel& k, const T* in, T* a, T* taus, T* work, T* packed, ThreadPool& pool);
template <class T>
void HouseholderProduct(const plan::LinalgKernel& k, const T* a, const T* taus, T* q, T* work, T* packed,
                        ThreadPool& pool);

// Eigenvalues and eigenvectors of a Hermitian matrix, of which one triangle is read; singular values and vectors (`u`
// and `vh` may be null unless k.vectors). `work`: so many bytes. NaN for matrices that are not finite.
template <class T>
int64_t EighBytes(const plan::LinalgKernel& k);
template <class T>
void Eigh(const plan::LinalgKernel& k, const T* a, T* vectors, typename RealOf<T>::Type* values, std::byte* work);
template <class T>
int64_t SvdBytes(const plan::LinalgKernel& k);
template <class T>
void Svd(const plan::LinalgKernel& k, const T* a, typename RealOf<T>::Type* values, T* u, T* vh, std::byte* work);

}  // namespace krafla::cpu::linalg
