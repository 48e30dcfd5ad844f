// SPDX-License-Identifier: Apache-2.0
// Programs in whatever form they come, for callers that see no reader of their own.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "hlo_io/read_module.h"
#include "krafla/xla_computation.h"

namespace krafla {

// HLO text, HloModuleProto, StableHLO text or bytecode, or an ONNX model; told apart by the bytes. `name` is for
// messages only. `sizes`: of arguments whose sizes the program leaves open. `path`: the file that the bytes are of,
// which an ONNX model may have weights beside; empty: there is none, and such a model is refused. The module is not
// verified; Client::Compile does that.
Result<std::unique_ptr<Module>> ReadProgram(std::string_view bytes, std::string_view name,
                                            const ArgumentSizes& sizes = {}, const std::string& path = {});
// The same, verified.
Result<XlaComputation> ReadComputation(std::string_view bytes, std::string_view name, const ArgumentSizes& sizes = {},
                                       const std::string& path = {});

// HloModuleProto, for callers who have a reader of their own.
Result<std::string> SerializeProgram(const Module& module);

}  // namespace krafla
