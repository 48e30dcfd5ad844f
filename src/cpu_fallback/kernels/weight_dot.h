// SPDX-License-Identifier: Apache-2.0
// Products of weights that are small integers, times or divided by a scale, with a vector of f32: each weight is the
// number that the program says, made in registers from its code.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu_fallback/kernels/int_dot.h"
#include "krafla/element_type.h"

namespace krafla::cpu {

// Rows of memory that are read together.
inline constexpr int64_t kWeightRows = 32;

// How a weight is made of n, a code less its zero point: n; n * scale, in f32 or rounded to a narrower type; or n /
// scale, rounded to bf16.
enum class WeightKind : uint8_t { kCodes, kProducts, kF16Products, kBf16Products, kBf16Quotients };

// sums[j] += sum over places of the depth of vector[r] * weight[r, j]
struct WeightDotTurn {
  const std::byte* weights = nullptr;  // the row of memory that has the first place, at its first column
  int64_t stride = 0;                  // bytes from row to row
  int64_t ahead = 0;                   // bytes from a row to the one that is read after these; 0: none
  // Places of the depth, whole rows of memory, at most kWeightRows of them; of column pairs the first column is even.
  int64_t places = 0, columns = 0;
  const float* vector = nullptr;
  const std::byte* scales = nullptr;  // of kCodes: not read
  const float* zeros = nullptr;       // null: 0
  float* sums = nullptr;
};
// For codes in rows and scales of a type: f32, f16 or bf16; where weights are rounded to bf16, bf16 alone. `is_upper`:
// as for FindIntDot. Null: there is none.
using WeightDotFn = void (*)(const CodeForm& form, const WeightDotTurn& turn);
WeightDotFn FindWeightDot(CodeForm::Kind kind, WeightKind how, ElementType scales, bool is_upper = false);

// The same of lines of codes along the depth: sums[j] is that of line j. Groups of a line have a scale each.
struct WeightLinesTurn {
  const std::byte* weights = nullptr;
  int64_t stride = 0;  // bytes from line to line
  int64_t lines = 0, depth = 0, group = 0;
  const float* vector = nullptr;
  const std::byte* scales = nullptr;  // a line's side by side; of kCodes: not read
  int64_t scales_stride = 0;          // elements from line to line
  float* sums = nullptr;
};
// Of kLineBytes and kLinePairs. Null also where there are wider vectors than AVX2's, for which there is native code.
using WeightLinesFn = void (*)(const CodeForm& form, const WeightLinesTurn& turn);
WeightLinesFn FindWeightLines(CodeForm::Kind kind, WeightKind how, ElementType scales);

}  // namespace krafla::cpu
