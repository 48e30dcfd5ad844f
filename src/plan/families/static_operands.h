// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/value_ref.h"

namespace krafla::plan {

// Whether the results and operands are arrays of static shapes with elements (unless nothing is computed), small enough
// for kernels that work on whole matrices and lines: their offsets are 32-bit.
bool HasStaticOperands(const Instruction& i);
// The same without a limit on results and without complex numbers, for sort, scan and scatter.
bool HasRealStaticOperands(const Instruction& i);
// Whether the computation can be written as nodes on real scalars. Complex numbers may be made and taken apart on the
// way.
bool IsEmittableOnScalars(const Computation& c);
// The leaf that operand n's result is.
inline ValueRef ResultLeaf(const Instruction& i, std::size_t n) {
  return {&i, i.shape().IsTuple() ? static_cast<int>(n) : 0};
}

}  // namespace krafla::plan
