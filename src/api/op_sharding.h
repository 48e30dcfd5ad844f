// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "krafla/status.h"

namespace krafla {

// A sharding in HLO text ("{devices=[2,1]<=[2]}") as the bytes of XLA's OpSharding
// (xla/xla_data.proto).
Result<std::string> SerializeOpSharding(std::string_view text);

}  // namespace krafla
