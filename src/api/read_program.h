// SPDX-License-Identifier: Apache-2.0
// Programs in whatever form they come, for callers that see no reader of their own.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "hlo_io/read_module.h"
#include "krafla/xla_computation.h"

namespace krafla {

struct ReadOptions {
  // Of arguments whose sizes the program leaves open.
  ArgumentSizes sizes = {};
  // The file that the bytes are of, which an ONNX or a compiled model may have weights beside; empty: there is none,
  // and such a model is refused.
  std::string path = {};
  // Keeps the bytes, where the weights of a compiled model are used then; null: they are copied.
  std::shared_ptr<const void> owner = {};
};

// HLO text, HloModuleProto, StableHLO text or bytecode, an ONNX model or a compiled one (api/compiled); told apart by
// the bytes. `name` is for messages only. The module is not verified; Client::Compile does that.
Result<std::unique_ptr<Module>> ReadProgram(std::string_view bytes, std::string_view name,
                                            const ReadOptions& options = {});
// The same of a file or a pipe. A compiled model is mapped.
Result<std::unique_ptr<Module>> ReadProgramFile(const std::string& path, const ArgumentSizes& sizes = {});
// The same, verified.
Result<XlaComputation> ReadComputation(std::string_view bytes, std::string_view name, const ReadOptions& options = {});
Result<XlaComputation> ReadComputationFile(const std::string& path, const ArgumentSizes& sizes = {});

// HloModuleProto, for callers who have a reader of their own.
Result<std::string> SerializeProgram(const Module& module);

}  // namespace krafla
