// SPDX-License-Identifier: Apache-2.0
// Reductions to a largest or smallest value and where it lies, as argmax and argmin are written.
#pragma once

#include "cpu_fallback/kernels/arg_extremum_rows.h"
#include "plan/kernel_plan.h"

namespace krafla::cpu {

// The loop for a reduction of pairs (value, index) by such a combiner (plan/arg_extremum.h). Null: it is another one.
ArgExtremumRows FindArgExtremum(const plan::Reduction& reduction);
// The same for columns.
ArgExtremumColumns FindArgExtremumOfColumns(const plan::Reduction& reduction);

}  // namespace krafla::cpu
