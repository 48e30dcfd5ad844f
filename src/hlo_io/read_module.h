// SPDX-License-Identifier: Apache-2.0
// A module in whatever form it comes: told apart by the bytes, not by the name of the file.
#pragma once

#include <memory>
#include <string_view>

#include "ir/module.h"
#include "krafla/status.h"

namespace krafla {

// HLO text, HloModuleProto, StableHLO text or bytecode. `file` is for messages only. The module is not verified.
Result<std::unique_ptr<Module>> ReadModule(std::string_view bytes, std::string_view file);

}  // namespace krafla
