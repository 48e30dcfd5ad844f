// SPDX-License-Identifier: Apache-2.0
// A scatter within a loop that is one kernel of one workgroup.
#pragma once

#include "spirv_codegen/kernels/scatter_windows.h"

namespace krafla::spirv {

// The points that invocations share, and the operations of each, as OperationsOf counts them.
struct NestScatterCost {
  int64_t points = 0;
  double operations = 0;
};
NestScatterCost CostOfNestScatter(const plan::ScatterKernel& s, const DeviceProfile& profile);

// An invocation takes an element of a window where windows have nothing in common; else a place of the window, of all
// updates in their order, so that no two invocations write the same element.
void EmitNestScatter(KernelWriter& w, const plan::ScatterKernel& s, uint32_t local);

}  // namespace krafla::spirv
