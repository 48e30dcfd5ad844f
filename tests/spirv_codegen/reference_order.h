// SPDX-License-Identifier: Apache-2.0
// Sorts, scans and scatters, slow and obvious.
#pragma once

#include "interpreter.h"

namespace krafla::spirv::testing {

void RunSort(const plan::SortKernel& sort, std::vector<Bytes>& memory);
void RunScan(const plan::ScanKernel& scan, std::vector<Bytes>& memory);
void RunScatter(const plan::ScatterKernel& scatter, std::vector<Bytes>& memory);

}  // namespace krafla::spirv::testing
