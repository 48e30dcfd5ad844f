// SPDX-License-Identifier: Apache-2.0
// jax.debug.inspect_array_sharding: JAX writes a function of its own into the backend_config of a custom call
// "InspectSharding", and whoever partitions the program calls it (XLA: xla/python/inspect_sharding.h).
#pragma once

#include <string_view>

#include "krafla/status.h"

namespace krafla::pjrt {

// `config`: the call's backend_config, which must be of this process and of a program that is alive: JAX's keeps it so
// while it compiles. `sharding`: as HLO text. The function's own error comes back as INTERNAL.
Result<> TellSharding(std::string_view config, std::string_view sharding);

}  // namespace krafla::pjrt
