// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/value_ref.h"

namespace krafla::plan {

// How a dot reads an operand: a value with a buffer, and a stride in elements for each dimension of the operand. The
// strides contain the transposes, slices, reverses and reshapes between the two.
struct StridedOperand {
  ValueRef base;  // resolved through reshapes
  int64_t offset = 0;
  Dims strides;
};
StridedOperand FoldStrides(const Instruction* operand);

}  // namespace krafla::plan
