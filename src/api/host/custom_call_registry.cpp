// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <set>

#include "krafla/custom_call.h"

namespace krafla {
namespace {

constexpr uint32_t kMagic = 0x07230203;
constexpr std::size_t kHeaderWords = 5;
constexpr uint32_t kOpEntryPoint = 15, kGlCompute = 5;

// Whether some OpEntryPoint of `words` is a compute shader of that name (SPIR-V 1.6, 2.3 and 3.52.6). Only looks at
// words that are there.
bool HasComputeEntryPoint(std::span<const uint32_t> words, std::string_view name) {
  for (std::size_t at = kHeaderWords; at < words.size();) {
    const uint32_t count = words[at] >> 16, opcode = words[at] & 0xffff;
    if (count == 0 || count > words.size() - at) return false;
    if (opcode == kOpEntryPoint && count > 3 && words[at + 1] == kGlCompute) {
      const auto* text = reinterpret_cast<const char*>(words.data() + at + 3);
      const std::size_t length = strnlen(text, (count - 3) * sizeof(uint32_t));
      if (std::string_view(text, length) == name) return true;
    }
    at += count;
  }
  return false;
}

}  // namespace

CustomCallRegistry& CustomCallRegistry::Global() {
  // Never destroyed: executables of other threads may still look at it while the process ends.
  static auto* registry = new CustomCallRegistry();
  return *registry;
}

Result<> CustomCallRegistry::AddFunction(std::string target, CustomCallFunction function) {
  if (target.empty() || !function) return InvalidArgument("A custom call needs a target's name and a function.");
  std::lock_guard lock(mutex_);
  if (!functions_.emplace(target, std::move(function)).second)
    return MakeError(StatusCode::kAlreadyExists, "The custom call '{}' has a function already.", target);
  return {};
}

Result<> CustomCallRegistry::AddKernel(std::string target, CustomCallKernel kernel) {
  if (target.empty()) return InvalidArgument("A custom call needs a target's name.");
  if (kernel.spirv.size() < kHeaderWords || kernel.spirv[0] != kMagic)
    return InvalidArgument("The kernel of custom call '{}' is not a SPIR-V module: it has {} words.", target,
                           kernel.spirv.size());
  if (!HasComputeEntryPoint(kernel.spirv, kernel.entry_point))
    return InvalidArgument("The kernel of custom call '{}' has no compute shader '{}'.", target, kernel.entry_point);
  if (!kernel.grid && kernel.elements_per_workgroup < 1)
    return InvalidArgument("The kernel of custom call '{}' has {} elements a workgroup; at least 1 is needed.", target,
                           kernel.elements_per_workgroup);
  std::lock_guard lock(mutex_);
  if (!kernels_.try_emplace(target, std::move(kernel)).second)
    return MakeError(StatusCode::kAlreadyExists, "The custom call '{}' has a kernel already.", target);
  return {};
}

const CustomCallFunction* CustomCallRegistry::FindFunction(std::string_view target) const {
  std::lock_guard lock(mutex_);
  auto it = functions_.find(target);
  return it != functions_.end() ? &it->second : nullptr;
}

const CustomCallKernel* CustomCallRegistry::FindKernel(std::string_view target) const {
  std::lock_guard lock(mutex_);
  auto it = kernels_.find(target);
  return it != kernels_.end() ? &it->second : nullptr;
}

std::vector<std::string> CustomCallRegistry::Targets() const {
  std::lock_guard lock(mutex_);
  std::set<std::string> names;
  for (const auto& [name, function] : functions_) names.insert(name);
  for (const auto& [name, kernel] : kernels_) names.insert(name);
  return {names.begin(), names.end()};
}

}  // namespace krafla
