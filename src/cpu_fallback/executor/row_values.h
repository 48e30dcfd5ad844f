// SPDX-License-Identifier: Apache-2.0
// What a stage over elements computes of its params alone is the same throughout a row: the scale of a norm, the
// logarithm of a sum. It is computed once a row.
#pragma once

#include <optional>
#include <vector>

#include "plan/element_program.h"

namespace krafla::cpu {

struct RowValues {
  plan::ElementProgram program;    // over the row dimensions
  std::vector<ElementType> types;  // of its results
};

// Takes such values out of `stage`, where they become params from `first_param` on. Nothing where there are none.
std::optional<RowValues> TakeRowValues(plan::ElementProgram& stage, const Dims& row_dims, int first_param);

}  // namespace krafla::cpu
