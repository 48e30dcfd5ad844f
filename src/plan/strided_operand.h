// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/value_ref.h"

namespace krafla::plan {

// How a dot reads an operand: a buffer value and strides in elements, one per operand dimension. Transposes, slices,
// reverses and reshapes between are folded in.
struct StridedOperand {
  ValueRef base;  // resolved through reshapes
  int64_t offset = 0;
  Dims strides;
};
StridedOperand FoldStrides(const Instruction* operand);

}  // namespace krafla::plan
