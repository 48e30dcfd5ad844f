// SPDX-License-Identifier: Apache-2.0
// What a computed operand of a product (plan::DotKernel) is, where it is made of small integers: (code - zero) * scale,
// with a scale and a zero point for a column, or for a group of the depth of a column. Whatever rounds a product of the
// two on its way is left out, but for a note of the usual cases.
#pragma once

#include <optional>

#include "plan/element_program.h"

namespace krafla::cpu {

struct QuantisedWeights {
  // Over the operand's dimensions: one result, an integer of at most 8 bits, s8 or u8.
  plan::ElementProgram codes;
  ElementType code_type = ElementType::kS8;
  // Places of the depth that have their scale and their zero point in common.
  int64_t group = 1;
  // Over the operand's dimensions with the depth's groups in the place of the depth: one f32. Without a result: all are
  // 1, or 0.
  plan::ElementProgram scales, zeros;
  // The weights as the program makes them, where that is known, with each step rounded to type `made_in`: code - zero;
  // (code - zero) * scale; or (code - zero) / divisor, of which the scales are the reciprocals.
  enum class Made : uint8_t { kOtherwise, kCodes, kProducts, kQuotients } made = Made::kOtherwise;
  ElementType made_in = ElementType::kF32;  // or f16 or bf16
  bool fits_bf16 = false;                   // code - zero, where `made` says something
  bool IsMade(Made how, ElementType in) const { return made == how && made_in == in; }
  plan::ElementProgram divisors;       // of kQuotients, as `scales`
  plan::ElementProgram integer_zeros;  // `zeros` as s32
};
// `is_rhs`: the depth is the last dimension but one, else the last.
std::optional<QuantisedWeights> FindQuantisedWeights(const plan::ElementProgram& program, bool is_rhs);

}  // namespace krafla::cpu
