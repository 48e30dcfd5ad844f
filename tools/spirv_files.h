// SPDX-License-Identifier: Apache-2.0
// The SPIR-V of a plan's kernels as files: for `krafla opt --stage spirv` and the bundle of `krafla doctor`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/client.h"
#include "plan/program_plan.h"

namespace krafla::cli {

struct SpirvFiles {
  struct File {
    std::string name;  // "003.0.spv"
    std::vector<uint32_t> words;
  };
  std::vector<File> files;
  std::string list;     // a line a kernel, for people; those that run on the CPU too, with the reason
  std::string kernels;  // kernels.json (kernel_list.h)
};
Result<SpirvFiles> MakeSpirvFiles(const plan::ProgramPlan& plan, const DeviceProfile& profile,
                                  const CompileOptions& options);

}  // namespace krafla::cli
