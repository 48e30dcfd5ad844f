// SPDX-License-Identifier: Apache-2.0
// StackFrameIndexProto as the tables that HLO text has after its header, and back.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hlo_io/hlo_proto/wire.h"

namespace krafla::hlo_proto {

using Tables = std::vector<std::pair<std::string, std::string>>;  // title, lines
Tables StackFrameTables(Reader reader);
// `tables`: pairs with other titles are passed over. Writes nothing where there is none.
void WriteStackFrames(Writer& module, uint32_t field, const Tables& tables);

}  // namespace krafla::hlo_proto
