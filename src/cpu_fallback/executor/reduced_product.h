// SPDX-License-Identifier: Apache-2.0
// Products of a few vectors with an operand that is computed and whose lines lie along the depth: a line's products are
// a row that is added up (plan::ReduceKernel), and go from one register to the next.
#pragma once

#include "cpu_fallback/executor/kernel_families.h"
#include "cpu_fallback/kernels/gemm.h"

namespace krafla::cpu {

// Where vector v of batch b, of so many places of the depth, begins: at element (b * count + v) * depth of an array of
// f32. And where its sums go: elements from one line, and from one vector, to the next.
struct ReducedVectors {
  int64_t count = 1;
  int64_t line_stride = 1, vector_stride = 0;
};

// `program`: of the operand, which is the right one of `problem` or else its left one; sums are f32. The kernel's
// bindings are those of `buffers`, then the vectors and the result.
KernelResult MakeReducedProduct(const plan::ElementProgram& program, bool is_rhs, const GemmProblem& problem,
                                const ReducedVectors& vectors, std::span<const plan::ProgramBuffer> buffers,
                                int threads);

}  // namespace krafla::cpu
