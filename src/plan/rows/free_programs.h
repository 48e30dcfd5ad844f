// SPDX-License-Identifier: Apache-2.0
// The programs of a kernel, and which of their dimensions are free ones (row_kernel.h).
#pragma once

#include <span>
#include <type_traits>
#include <vector>

#include "plan/kernel_plan.h"

namespace krafla::plan {

// Calls visit(program, free_of) for each program of a loop, a reduction or a dot; free_of: the free dimension that a
// dimension of the program is, or -1.
template <typename Body, typename Visit>
void ForEachFreeProgram(Body& body, Visit&& visit) {
  std::vector<int> free_of;
  const auto go = [&](auto& program, std::size_t free) {
    free_of.assign(program.space.dims().size(), -1);
    for (std::size_t d = 0; d < free && d < free_of.size(); ++d) free_of[d] = static_cast<int>(d);
    visit(program, std::span<const int>(free_of));
  };
  std::visit(
      [&](auto& kernel) {
        using Kernel = std::remove_cvref_t<decltype(kernel)>;
        if constexpr (std::is_same_v<Kernel, LoopKernel>) go(kernel.program, kernel.program.space.dims().size());
        if constexpr (std::is_same_v<Kernel, ReduceKernel>)
          for (auto& stage : kernel.stages) {
            go(stage.program, kernel.row_dims.size());
            for (auto& reduction : stage.reductions) go(reduction.combiner, 0), go(reduction.init, 0);
          }
        if constexpr (std::is_same_v<Kernel, DotKernel>) {
          if (kernel.computes_lhs()) go(kernel.lhs_program, kernel.batch.size() + 1);
          if (kernel.computes_rhs()) go(kernel.rhs_program, kernel.batch.size());
          go(kernel.epilogue, kernel.batch.size() + 1);
        }
      },
      body);
}

}  // namespace krafla::plan
