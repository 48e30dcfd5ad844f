// SPDX-License-Identifier: Apache-2.0
// What the stages of a reduction are compiled to.
#pragma once

#include <optional>
#include <vector>

#include "cpu_fallback/executor/block_program.h"
#include "cpu_fallback/kernels/arg_extremum_rows.h"
#include "cpu_fallback/kernels/block_ops.h"
#include "cpu_fallback/kernels/complex_products.h"
#include "cpu_fallback/kernels/reduce_ops.h"
#include "plan/kernel_plan.h"

namespace krafla::cpu {

struct ReducedValue {
  int width = 4;   // while it is reduced
  int result = 0;  // of the stage's program
};

struct CompiledReduction {
  std::vector<ReducedValue> values;
  int first_param = 0;
  ReduceOps ops;                           // of one value
  std::optional<uint64_t> neutral;         // of what IsFolded: what leaves every number as it is
  ComplexProducts products;                // of the parts of complex numbers
  ArgExtremumRows arg_extremum = nullptr;  // of pairs (value, index)
  ArgExtremumColumns arg_columns = nullptr;
  int fold_buffer = -1;                            // of the stage's program, whose tiles fold it themselves
  bool in_turn = false;                            // plan::CombinesInTurn
  ElementType ordered = ElementType::kInvalid;     // its values are ordered where they are such floats and no NaN
  ConvertFn narrow = nullptr, widen = nullptr;     // of values that are reduced as they are stored
  BlockFn wrap = nullptr;                          // narrow integers that are summed in 32 bits
  ElementType arithmetic = ElementType::kInvalid;  // of floats that are no longer what was loaded
  BlockProgram combiner;                           // otherwise
  int64_t combiner_frame = 0;
  BlockProgram init;
};

struct CompiledStage {
  plan::ReduceStage::Scope scope = plan::ReduceStage::Scope::kElement;
  bool sums_floats = false;  // some reduction's result depends on the order, and none is combined in turn
  bool sums_f32 = false;     // all reductions are sums of f32
  BlockProgram program;
  std::vector<int> params;  // that it reads
  std::vector<CompiledReduction> reductions;
  int64_t frame = 0;        // where its frame is in a worker's scratch
  BlockProgram row_values;  // computed before its tiles, into params from `first_row_value` on
  int first_row_value = 0, row_value_count = 0;
  int64_t row_values_frame = 0;
};

}  // namespace krafla::cpu
