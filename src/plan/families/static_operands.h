// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/value_ref.h"

namespace krafla::plan {

// Whether operands and results are arrays of static shapes, with at least one element unless nothing is computed, and
// small enough for kernels that work on whole matrices and lines, whose offsets have 32 bits.
bool HasStaticOperands(const Instruction& i);
// The same without a limit on results and without complex numbers, for sort, scan and scatter.
bool HasRealStaticOperands(const Instruction& i);
// Whether the computation can be written as nodes on real scalars. Complex numbers may occur within it.
bool IsEmittableOnScalars(const Computation& c);
// The leaf of the result that belongs to operand n.
inline ValueRef ResultLeaf(const Instruction& i, std::size_t n) {
  return {&i, i.shape().IsTuple() ? static_cast<int>(n) : 0};
}

}  // namespace krafla::plan
