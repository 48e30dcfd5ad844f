// SPDX-License-Identifier: Apache-2.0
// Which variant of a reduction a device gets.
#pragma once

#include <string>

#include "spirv_codegen/kernels/reduce_rows.h"

namespace krafla::spirv {

struct ReduceChoice {
  RowOwner owner = RowOwner::kInvocation;
  int row_width = 1;  // neighbouring rows that an invocation takes
  uint32_t local = 64, subgroup = 0;
  int64_t parts = 1;  // into which a row is split
  std::string name, reason;
};
// `second_pass`: of a reduction of the parts of rows, which is not split again.
ReduceChoice ChooseReduce(const plan::ReduceKernel& k, const ReduceProblem& p, const Target& target, bool second_pass);

// Bytes of shared memory in which `entries` invocations or subgroups meet.
int64_t ReduceSharedBytes(const plan::ReduceKernel& k, uint32_t entries);

}  // namespace krafla::spirv
