// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/opcode.h"
#include "krafla/element_type.h"

namespace krafla::plan {

struct ElementProgram;

// A rough cost of one evaluation of the operation; the unit is one addition.
double ElementCost(Opcode opcode, ElementType type);
// The least cost of what is made of many operations. Roots and quotients are operations of processors.
constexpr double kLeastFormulaCost = 20;
// Of one point of the program, where a load counts as an addition.
double ProgramCost(const ElementProgram& program);

}  // namespace krafla::plan
