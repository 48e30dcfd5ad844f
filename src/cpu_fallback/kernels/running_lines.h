// SPDX-License-Identifier: Apache-2.0
// Running combinations of a few lines, each element after the other in registers: where so few lie beside each other
// that a vector loop for each step would cost more than the step.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/opcode.h"
#include "krafla/element_type.h"

namespace krafla::cpu {

inline constexpr int64_t kLinesAtOnce = 4;  // so that one line's step need not wait for that of another one

// Lines of one array as those of another one of the same strides.
struct RunningLines {
  int64_t offsets[kLinesAtOnce] = {};  // elements from the arrays' beginnings to where a line begins
  int64_t lines = 0, steps = 0;
  int64_t step = 1;  // elements; negative where lines are walked from their ends
};
// to[line, s] = sum[line] = sum[line] (op) from[line, s]; both arrays and the sums are of the type.
using RunningLinesFn = void (*)(const RunningLines& lines, const std::byte* from, std::byte* to, std::byte* sums);

// Sums, products, extrema and logical ops of integers and predicates in their own width, products and extrema of f32
// and f64. Null where there is none.
RunningLinesFn FindRunningLines(Opcode opcode, ElementType type);

}  // namespace krafla::cpu
