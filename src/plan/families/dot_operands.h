// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "plan/strided_operand.h"

namespace krafla::plan {

struct DotOperands {
  StridedOperand lhs, rhs;
};
// The buffers furthest up the chains of views that the dot can read with one stride along its contraction; nullopt
// where there are none.
std::optional<DotOperands> ChooseDotOperands(const Instruction& dot);

}  // namespace krafla::plan
