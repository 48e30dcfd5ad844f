// SPDX-License-Identifier: Apache-2.0
// Programs in whatever form they come, for callers that see no reader of their own.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "ir/module.h"
#include "krafla/status.h"

namespace krafla {

// HLO text, HloModuleProto, StableHLO text or bytecode, or ONNX whose shapes are all known and whose weights are
// inside; told apart by the bytes. `name` is for messages only. The module is not verified; Client::Compile does that.
Result<std::unique_ptr<Module>> ReadProgram(std::string_view bytes, std::string_view name);

// HloModuleProto, for callers who have a reader of their own.
Result<std::string> SerializeProgram(const Module& module);

}  // namespace krafla
