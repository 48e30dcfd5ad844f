// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

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

struct Rate {
  std::string name;  // "copy", "matrix_f16", "launch"
  std::string unit;  // "bytes/s", "flop/s", "s"
  double value = 0;
  std::string missing;  // why there is none
};

// The roof, and what else a program's time is made of: reading alone and writing alone, products of matrices in each
// type that the device has, a launch within a submission, a submission with the wait for it, arrays to the device and
// back. A rate that cannot be had says why.
std::vector<Rate> MeasureRates(Client& client, const CompileOptions& options);

}  // namespace krafla::cli
