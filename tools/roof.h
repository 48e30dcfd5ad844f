// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "command.h"

namespace krafla::cli {

// What a device reaches with krafla's own kernels on problems that are nothing but arithmetic or nothing but memory:
// what the kernels of a program can be held against.
struct Roof {
  double flops_per_s = 0;  // an f32 product of matrices
  double bytes_per_s = 0;  // an f32 array read and another written, larger than most caches

  // The share of the roof that this much work in `ms` reaches: of arithmetic or of memory, whichever is larger.
  double ShareOf(double flops, double bytes, double ms) const;
};

// Compiles and runs both, some 0.2 s on most devices.
Result<Roof> MeasureRoof(Client& client, const CompileOptions& options);

}  // namespace krafla::cli
