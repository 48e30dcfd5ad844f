// SPDX-License-Identifier: Apache-2.0
// One row-major matrix each, in the type that is computed in: T is float, double or complex of them. The threads share
// large matrices.
#pragma once

#include "base/thread_pool.h"
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
void Lu(const plan::LinalgKernel& k, const T* a, T* lu, int32_t* pivots, int32_t* permutation, T* packed, ThreadPool& pool);
// `work`: rows + columns numbers.
template <class T>
void Qr(const plan::LinalgKernel& k, const T* in, T* a, T* taus, T* work);
template <class T>
void HouseholderProduct(const plan::LinalgKernel& k, const T* a, const T* taus, T* q, T* work);

}  // namespace krafla::cpu::linalg
