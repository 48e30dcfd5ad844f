// SPDX-License-Identifier: Apache-2.0
// Programs that have been through the passes, in a file that is loaded without them (docs/ahead-of-time.md).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "api/client.h"
#include "ir/module.h"
#include "krafla/status.h"

namespace krafla {

// Whether the bytes begin as a compiled model does.
bool LooksLikeCompiledModel(std::string_view bytes);

// A module with Module::optimised. `owner` keeps `bytes`, and the weights are used where they lie then; null: they are
// copied. `folder` has the file of weights that a model may have beside it; empty: there is none, and such a model is
// FAILED_PRECONDITION. `name` is for messages. The module is not verified. Bytes may be anybody's.
Result<std::unique_ptr<Module>> ReadCompiledModel(std::string_view bytes, std::string_view name,
                                                  std::shared_ptr<const void> owner, const std::string& folder = {});

struct CompiledModelSize {
  uint64_t file_bytes = 0, weight_bytes = 0;
  int programs = 0;
  uint64_t weights_file_bytes = 0;  // of the file of weights, where there is one
};

// Runs the passes for each of `targets` and writes the file, which appears under `path` when it is whole. Targets for
// which the program becomes the same share it. `options`: what the passes are told. `weights_name`: a file in the same
// folder that gets the weights, safetensors; empty: the model has them itself.
Result<CompiledModelSize> WriteCompiledModel(const Module& module, std::span<const CompileTarget> targets,
                                             const CompileOptions& options, const std::string& path,
                                             const std::string& weights_name = {});

}  // namespace krafla
