// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "passes/pipeline.h"

namespace krafla {

// The shardings of the leaves of a program's parameters and of its result, as HLO text.
struct SpmdShardings {
  std::vector<std::string> parameters, results;
  // The channels of the all-gathers that put arrays together for want of a rule; some of these may be dead code.
  std::vector<int64_t> gathers;
};

// The pass spmd_partitioner on a verified module, and what it made of the interface. Nothing where
// the module is for one partition, or has been partitioned already; then it is left as it is.
Result<std::optional<SpmdShardings>> PartitionModule(Module& module, const PassOptions& options = {});

}  // namespace krafla
