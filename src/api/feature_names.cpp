// SPDX-License-Identifier: Apache-2.0
#include "api/feature_names.h"

#include <algorithm>

#include "api/group/device_links.h"
#include "device/device_profile.h"
#include "passes/pipeline.h"

namespace krafla {

Result<> CheckDisabledName(std::string_view name) {
  if (std::ranges::contains(kOfAllDevices, name) || FindPass(name).has_value()) return {};
  if (std::ranges::contains(FeatureNames(), name, &FeatureName::name)) return {};
  // The host's path is there for all that no other takes.
  if (name != NameOf(PathKind::kHost) && std::ranges::contains(kPathNames, name, &PathName::name)) return {};
  std::string names;
  for (const std::string_view n : kOfAllDevices) names += Format("{}{}", names.empty() ? "" : ", ", n);
  for (const FeatureName& f : FeatureNames()) names += Format(", {}", f.name);
  for (const PathName& p : kPathNames)
    if (p.kind != PathKind::kHost && p.kind != PathKind::kHostImport) names += Format(", {}", p.name);
  return InvalidArgument(
      "Unknown feature '{}'; the features are {}, and the passes that krafla opt --list-passes lists.", name, names);
}

Result<> CheckEnabledName(std::string_view name) {
  constexpr std::string_view kNames[] = {kCooperativeMatrices, kFlexibleMatrices, kFastFunctions, kIntDot,
                                         kDeviceSums,          kOverlapAll,       kDotsByTurns};
  if (std::ranges::contains(kNames, name)) return {};
  return InvalidArgument(
      "'{}' cannot be enabled: {}, {}, {}, {}, {}, {} and {} can, and everything else is on wherever the device has it.",
      name, kNames[0], kNames[1], kNames[2], kNames[3], kNames[4], kNames[5], kNames[6]);
}

PassOptions PartitionOptions(const std::set<std::string>& disabled, const std::set<std::string>& enabled) {
  constexpr int64_t kLeastBytesByTurns = 1 << 20;
  PassOptions out;
  out.disabled = disabled;
  if (enabled.contains(std::string(kDotsByTurns))) out.least_bytes_by_turns = kLeastBytesByTurns;
  return out;
}

Result<> CheckFeatureNames(const CompileOptions& options) {
  for (const std::string& name : options.disabled) KRAFLA_TRY(CheckDisabledName(name));
  for (const std::string& name : options.enabled) KRAFLA_TRY(CheckEnabledName(name));
  return {};
}

}  // namespace krafla
