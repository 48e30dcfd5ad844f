// SPDX-License-Identifier: Apache-2.0
// Quantised weights (quantised_weights.h) whose codes or scales kernels can read as they lie in memory.
#pragma once

#include <optional>

#include "cpu_fallback/executor/quantised_weights.h"
#include "cpu_fallback/kernels/int_dot.h"
#include "cpu_fallback/kernels/weight_dot.h"

namespace krafla::cpu {

// Where the codes are as they lie in memory: row by row along the depth, or line by line (is_along_depth).
struct CodesInMemory {
  CodeForm form;
  int buffer = 0;
  int64_t offset = 0;  // bytes, of the first one
  int64_t stride = 0;  // bytes along the depth, or from line to line
  Dims batch_strides;  // bytes
};
std::optional<CodesInMemory> FindCodesInMemory(const QuantisedWeights& weights, bool is_rhs);

// Where scales are: f32, f16 or bf16, side by side along the lines; or, of lines, along the depth.
struct ScalesInMemory {
  ElementType type = ElementType::kF32;
  int buffer = 0;
  int64_t offset = 0, stride = 0;  // elements, from group to group, or from line to line
  Dims batch_strides;              // elements
};
// `scales`: of QuantisedWeights, which may have none.
std::optional<ScalesInMemory> FindScalesInMemory(const plan::ElementProgram& scales, bool is_rhs,
                                                 bool of_lines = false);

// How kernels make such weights (kernels/weight_dot.h). Nothing: they make others only.
std::optional<WeightKind> WeightKindOf(const QuantisedWeights& weights);

}  // namespace krafla::cpu
