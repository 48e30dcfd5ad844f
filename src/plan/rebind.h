// SPDX-License-Identifier: Apache-2.0
// A kernel over the bindings of another one, of which it becomes a part.
#pragma once

#include <span>
#include <vector>

#include "plan/kernel_plan.h"

namespace krafla::plan {

// Binding b becomes to[b] of `buffers`. The body is a loop, a reduction or a dot, or made of such.
void Rebind(KernelBody& body, std::span<const int> to, const std::vector<ProgramBuffer>& buffers);

}  // namespace krafla::plan
