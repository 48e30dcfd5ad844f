// SPDX-License-Identifier: Apache-2.0
// A module in whatever form it comes: told apart by the bytes, not by the name of the file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "krafla/program_inputs.h"
#include "krafla/status.h"

namespace krafla {

// All sizes of arguments, by name or by number ("0").
using ArgumentSizes = std::map<std::string, std::vector<int64_t>>;

// HLO text, HloModuleProto, StableHLO text or bytecode. `file` is for messages only. The module is not verified. A
// StableHLO program that leaves sizes of arguments open is read for the sizes in `shapes`; what a program states must
// be equal to them.
Result<std::unique_ptr<Module>> ReadModule(std::string_view bytes, std::string_view file,
                                           const ArgumentSizes& shapes = {});
// What a StableHLO program takes, with the sizes that it leaves open; nothing for HLO, which states every size.
Result<std::optional<std::vector<ProgramInput>>> ReadOpenInputs(std::string_view bytes, std::string_view file);

}  // namespace krafla
