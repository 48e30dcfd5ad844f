// SPDX-License-Identifier: Apache-2.0
// The invocations' results of reductions become one.
#pragma once

#include <map>
#include <utility>

#include "spirv_codegen/kernels/reduction_values.h"

namespace krafla::spirv {

// Of a workgroup of `local` invocations. `subgroup`: the size of subgroup that the kernel counts on, 0 for none.
class WorkgroupMeet {
 public:
  WorkgroupMeet(Builder& b, uint32_t local, uint32_t subgroup) : b_(b), local_(local), subgroup_(subgroup) {}

  // The states of all invocations as one, which each of them gets. Every invocation comes here.
  Values Meet(const ReductionValues& values, Values state);

 private:
  // The array for value `i` of that kind, made where there is none yet.
  Id SharedFor(std::size_t i, Kind kind);

  Builder& b_;
  uint32_t local_, subgroup_;
  std::map<std::pair<std::size_t, Kind>, Id> shared_;
};

}  // namespace krafla::spirv
