// SPDX-License-Identifier: Apache-2.0
// Products of depth one: each row of the result is a row times a number, a matter of storing it.
#pragma once

#include "cpu_fallback/kernels/gemm.h"

namespace krafla::cpu {

// f32 and f64, the right side dense.
bool IsOuterProduct(const GemmProblem& problem);
void RunOuterProduct(const GemmProblem& problem, const std::byte* lhs, const std::byte* rhs, std::byte* result,
                     ThreadPool& pool);

}  // namespace krafla::cpu
