// SPDX-License-Identifier: Apache-2.0
// Shardings and shapes as the bytes of XLA's protos (xla/xla_data.proto), which callers of plugins exchange.
#pragma once

#include <string>
#include <string_view>

#include "krafla/shape.h"
#include "krafla/status.h"

namespace krafla {

// A sharding in HLO text ("{devices=[2,1]<=[2]}") as OpSharding, and the other way.
Result<std::string> SerializeOpSharding(std::string_view text);
Result<std::string> ParseOpSharding(std::string_view bytes);
// A ShapeProto.
Result<std::string> SerializeShape(const Shape& shape);

}  // namespace krafla
