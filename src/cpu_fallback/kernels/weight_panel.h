// SPDX-License-Identifier: Apache-2.0
// Weights that are small integers, times or divided by a scale and rounded to bf16, as the matrix that many rows are
// multiplied with: made in registers of their codes, as those of a few rows are (weight_dot.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu_fallback/kernels/weight_dot.h"

namespace krafla::cpu {

// to[r * to_stride + j] is the weight of place r and column j, as bf16.
struct WeightPanelTurn {
  const std::byte* weights = nullptr;  // the row of memory that has the first place, at its first column
  int64_t stride = 0;                  // bytes from row to row
  // Places of the depth of one group, whole rows of memory; of column pairs the first column is even.
  int64_t places = 0, columns = 0;
  const std::byte* scales = nullptr;  // of kCodes: not read
  const float* zeros = nullptr;       // null: 0
  uint16_t* to = nullptr;
  int64_t to_stride = 0;
};
// For codes in rows, weights that bf16 has (WeightKind::kCodes where it has all, kBf16Products and kBf16Quotients), and
// scales of bf16; `is_upper`: as for FindIntDot. Null: there is none.
using WeightPanelFn = void (*)(const CodeForm& form, const WeightPanelTurn& turn);
WeightPanelFn FindWeightPanel(CodeForm::Kind kind, WeightKind how, ElementType scales, bool is_upper = false);

}  // namespace krafla::cpu
