// SPDX-License-Identifier: Apache-2.0
// Compiled models have been through the passes. What krafla makes for itself, such as the modules of the self-test, is
// planned as it is.
#include "passes/entry_packing.h"
#include "passes/pipeline.h"
#include "passes/spmd/spmd_partitioner.h"

namespace krafla {

std::span<const PassInfo> AllPasses() { return {}; }

Result<const PassInfo*> FindPass(std::string_view name) {
  return NotFound("There is no pass '{}': this build of krafla (KRAFLA_RUNTIME_ONLY) has none.", name);
}

Result<> PackEntry(Module&) { return {}; }

Result<> RunPipeline(Module&, const PassOptions&, const PassObserver&) { return {}; }

Result<> RunPasses(Module&, std::span<const std::string> names, const PassOptions&, const PassObserver&) {
  if (names.empty()) return {};
  KRAFLA_TRY(FindPass(names.front()));
  return {};
}

Result<std::optional<SpmdShardings>> PartitionModule(Module& module, const PassOptions&) {
  return Unimplemented("'{}' would have to be partitioned, which this build of krafla (KRAFLA_RUNTIME_ONLY) does not.",
                       module.name());
}

}  // namespace krafla
