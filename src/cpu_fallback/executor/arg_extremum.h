// SPDX-License-Identifier: Apache-2.0
// Reductions of pairs (value, index): to a largest or smallest value and where it lies, as argmax and argmin are
// written, and to the one that a window of a select-and-scatter selects.
#pragma once

#include "cpu_fallback/kernels/arg_extremum_rows.h"
#include "plan/kernel_plan.h"

namespace krafla::cpu {

// The loop for a reduction of pairs by a combiner of argmax or argmin (plan/arg_extremum.h). Null: it is another one.
ArgExtremumRows FindArgExtremum(const plan::Reduction& reduction);
// The loop for columns of pairs, by such a combiner or by that of a selection (select_and_scatter_expander.cpp).
ArgExtremumColumns FindPairColumns(const plan::Reduction& reduction);

}  // namespace krafla::cpu
