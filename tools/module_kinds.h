// SPDX-License-Identifier: Apache-2.0
// THE table of the kinds of file that a module is written to: what `krafla import` and `krafla opt` choose from by the
// file's name, and `krafla opt` by the word after --emit.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/front_end.h"
#include "ir/module.h"
#include "krafla/status.h"

namespace krafla::cli {

struct ModuleKind {
  std::string_view word;     // "proto", after --emit
  std::string_view what;     // "HloModuleProto", for people
  std::string_view endings;  // ".pb", or several with spaces between
  Result<std::string> (*print)(const Module&);
};

std::span<const ModuleKind> ModuleKinds();
std::vector<std::string> ModuleKindWords();
// "HLO text (.hlo, .txt), HloModuleProto (.pb)"
std::string DescribeModuleKinds();
// Null where none of the kinds has such names.
const ModuleKind* ModuleKindOfFile(std::string_view path);
const ModuleKind* ModuleKindOfWord(std::string_view word);

// What `krafla compile` writes is no form of a module, but made of one.
bool IsCompiledModelFile(std::string_view path);
// The back ends that a compiled model may be for.
std::span<const CompileTarget> CompiledModelTargets();

}  // namespace krafla::cli
