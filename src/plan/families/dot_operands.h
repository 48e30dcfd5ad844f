// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "plan/strided_operand.h"

namespace krafla::plan {

struct DotOperands {
  StridedOperand lhs, rhs;
};
// The deepest buffers that the dot can read with one stride along its contraction; nullopt when it has none.
std::optional<DotOperands> ChooseDotOperands(const Instruction& dot);

}  // namespace krafla::plan
