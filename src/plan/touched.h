// SPDX-License-Identifier: Apache-2.0
// What of its bindings a kernel reads and writes.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "plan/interval.h"
#include "plan/kernel_plan.h"

namespace krafla::plan {

struct TouchedElements {
  // Elements outside are not touched; where masks keep some from it, the range may reach out of the binding. lo > hi:
  // no element is.
  Interval range = {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  double count = 0;  // at most so many, each once
};

// By binding. Of loops, reductions, dots and what is made of them, which reach their bindings by their programs and a
// dot's strides alone; nothing for other families, and where a kernel iterates over nothing.
std::optional<std::vector<TouchedElements>> TouchedBy(const KernelPlan& kernel);

// Bytes that a launch moves if what it touches is moved once.
double BytesMoved(const KernelPlan& kernel);

}  // namespace krafla::plan
