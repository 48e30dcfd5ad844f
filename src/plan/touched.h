// SPDX-License-Identifier: Apache-2.0
// What of its bindings a kernel reads and writes.
#pragma once

#include <limits>
#include <optional>
#include <type_traits>
#include <variant>
#include <vector>

#include "plan/interval.h"
#include "plan/kernel_plan.h"

namespace krafla::plan {

// Calls visit(program) for each program of a kernel (a KernelBody, constant or not). False where the kernel also
// reaches its bindings by other means than these programs and a dot's strides.
template <typename Body, typename Visit>
bool ForEachProgram(Body& body, Visit&& visit) {
  return std::visit(
      [&](auto& kernel) {
        using Kernel = std::remove_cvref_t<decltype(kernel)>;
        if constexpr (std::is_same_v<Kernel, LoopKernel>) {
          visit(kernel.program);
        } else if constexpr (std::is_same_v<Kernel, ReduceKernel>) {
          for (auto& stage : kernel.stages) {
            visit(stage.program);
            for (auto& reduction : stage.reductions) visit(reduction.combiner), visit(reduction.init);
          }
        } else if constexpr (std::is_same_v<Kernel, DotKernel>) {
          visit(kernel.epilogue);
        } else {
          return false;
        }
        return true;
      },
      body);
}

struct TouchedElements {
  // Elements outside are not touched; where masks keep some from it, the range may reach out of the binding. lo > hi:
  // no element is.
  Interval range = {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  double count = 0;  // at most so many, each once
};

// By binding. Nothing where a kernel is of another family than the three above, or iterates over nothing.
std::optional<std::vector<TouchedElements>> TouchedBy(const KernelPlan& kernel);

// Bytes that a launch moves if what it touches is moved once.
double BytesMoved(const KernelPlan& kernel);

}  // namespace krafla::plan
