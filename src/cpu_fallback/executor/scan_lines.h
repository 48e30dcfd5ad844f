// SPDX-License-Identifier: Apache-2.0
// Running combinations of few lines beside each other, by plain ops: one to four lines at a time, in registers.
#pragma once

#include <memory>

#include "cpu_fallback/executor/cpu_kernel.h"
#include "plan/kernel_plan.h"

namespace krafla::cpu {

// Null where vectors of lines do better, or the combiner is no such op.
Result<std::unique_ptr<CpuKernel>> MakeScanOfLines(const plan::ScanKernel& body, int threads);

}  // namespace krafla::cpu
