// SPDX-License-Identifier: Apache-2.0
// Custom calls that the caller's functions cut: jax.experimental.custom_partitioning.
#pragma once

#include "api/group/custom_cuts.h"
#include "plugins/pjrt/abi/custom_partitioner_api.h"

namespace krafla::pjrt {

// The functions that were registered. JAX's give programs as MLIR's own bytecode of StableHLO, which has no version
// that would be promised; python/jax_plugins/krafla/_custom_partitioning.py registers the same functions under a name
// of its own, for portable artifacts, and these are taken first.
const CustomCuts& RegisteredPartitioners();

// The extension; what follows it in the chain is set by who links it.
PJRT_Custom_Partitioner_Extension* CustomPartitionerExtension();

}  // namespace krafla::pjrt
