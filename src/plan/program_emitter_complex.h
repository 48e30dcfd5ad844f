// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/opcode.h"

namespace krafla::plan {

// Ops on complex numbers whose formula is numerics/complex_formulas.h.
bool HasComplexFormula(Opcode opcode);

}  // namespace krafla::plan
