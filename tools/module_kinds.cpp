// SPDX-License-Identifier: Apache-2.0
#include "module_kinds.h"

#include <ranges>

#include "api/vulkan/emitted_kernels.h"
#include "hlo_io/hlo_proto/hlo_proto.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "hlo_io/write_stablehlo.h"

namespace krafla::cli {
namespace {

constexpr ModuleKind kModuleKinds[] = {
    {"hlo", "HLO text", ".hlo .txt", [](const Module& module) { return Result<std::string>(PrintModule(module)); }},
    {"proto", "HloModuleProto", ".pb", [](const Module& module) { return SerializeHloProto(module); }},
    {"stablehlo", "StableHLO text", ".mlir", &WriteStablehloText},
    {"bytecode", "StableHLO bytecode", ".mlirbc", &WriteStablehloBytecode},
};
constexpr CompileTarget kBackEnds[] = {kCpuTarget, kVulkanTarget};

std::vector<std::string_view> EndingsOf(const ModuleKind& kind) {
  std::vector<std::string_view> out;
  for (const auto ending : std::views::split(kind.endings, ' ')) out.emplace_back(ending.begin(), ending.end());
  return out;
}

}  // namespace

std::span<const ModuleKind> ModuleKinds() { return kModuleKinds; }
std::span<const CompileTarget> CompiledModelTargets() { return kBackEnds; }

std::vector<std::string> ModuleKindWords() {
  std::vector<std::string> out;
  for (const ModuleKind& kind : kModuleKinds) out.emplace_back(kind.word);
  return out;
}

std::string DescribeModuleKinds() {
  std::string out;
  for (const ModuleKind& kind : kModuleKinds) {
    std::string endings;
    for (const std::string_view ending : EndingsOf(kind))
      endings += Format("{}{}", endings.empty() ? "" : ", ", ending);
    out += Format("{}{} ({})", out.empty() ? "" : ", ", kind.what, endings);
  }
  return out;
}

const ModuleKind* ModuleKindOfFile(std::string_view path) {
  for (const ModuleKind& kind : kModuleKinds)
    for (const std::string_view ending : EndingsOf(kind))
      if (path.ends_with(ending)) return &kind;
  return nullptr;
}

const ModuleKind* ModuleKindOfWord(std::string_view word) {
  for (const ModuleKind& kind : kModuleKinds)
    if (kind.word == word) return &kind;
  return nullptr;
}

bool IsCompiledModelFile(std::string_view path) { return path.ends_with(".krafla"); }

}  // namespace krafla::cli
