// SPDX-License-Identifier: Apache-2.0
// Blocks of Householder reflectors I - tau v v^H, of which v begins with a one. To apply a block to a column takes two
// passes over the column instead of two for each reflector: with w_j = v_j^H c of the column as it was, the multiples
// y_j of the v_j that the reflectors subtract one after the other are y_j = tau_j (w_j - sum of v_j^H v_i y_i over the
// i applied before j). The products v_j^H v_i are worked out once a block.
#pragma once

#include "spirv_codegen/kernels/linalg.h"

namespace krafla::spirv {

// `count` reflectors, of which number j begins at row `first` + j; the ones are not stored.
struct ReflectorBlock {
  int count = 0;
  Value first, rows;
  std::function<Number(Value row, int j)> v;  // below its one
  // v_j .. v_j+3 of a row, j a multiple of 4, where these are real numbers side by side; may be empty.
  std::function<Value(Value row, int j)> four;
  std::function<Number(int j)> tau;             // as they are applied: conjugated for H^H
  std::function<Number(int j, int i)> product;  // v_j^H v_i for i < j
  bool backward = false;                        // the last reflector is applied first
};

// Applies the block to the column that `load` reads and `store` writes by its row.
void ApplyReflectors(LinalgKernelWriter& w, const ReflectorBlock& block, const std::function<Number(Value row)>& load,
                     const std::function<void(Value row, Number value)>& store);

}  // namespace krafla::spirv
