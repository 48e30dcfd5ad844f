// SPDX-License-Identifier: Apache-2.0
// An operand of a product whose program only moves: it reads one array, at strides along each dimension and from a
// start that is computed when the kernel runs. So a loop over layers slices its weights. Such an operand is read as a
// stored one is, from that start on.
#pragma once

#include <optional>

#include "plan/element_program.h"
#include "spirv_codegen/kernels/context.h"

namespace krafla::spirv {

struct MovedOperand {
  int binding = 0;
  ElementType type = ElementType::kF32;  // as it is stored
  Dims strides;                          // of the dimensions of the program's space, in elements
  int64_t granule = 0;                   // the start is a multiple of this; 0: it is 0
  plan::IndexId index = 0;               // of the element that is read
};
// Nothing where the program does more, or its elements are not stored as `type`.
std::optional<MovedOperand> MovedOperandOf(const plan::ElementProgram& program, ElementType type);

// Where the operand begins, in elements: its index at the coordinates 0.
Value StartOf(KernelWriter& w, const plan::ElementProgram& program, plan::IndexId index);

}  // namespace krafla::spirv
