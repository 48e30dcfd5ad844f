// SPDX-License-Identifier: Apache-2.0
// Shardings for callers who speak XLA's protos.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace krafla {

// OpSharding (xla/xla_data.proto) of what HLO text says: "{devices=[2,1]<=[2]}", "{replicated}".
Result<std::string> SerializeOpSharding(std::string_view text);

}  // namespace krafla
