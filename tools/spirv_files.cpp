// SPDX-License-Identifier: Apache-2.0
#include "spirv_files.h"

#include <cstdio>

#include "api/vulkan/emitted_kernels.h"
#include "kernel_list.h"
#ifdef KRAFLA_HAVE_VULKAN
#include "api/vulkan/vulkan_tuned.h"
#endif

namespace krafla::cli {

Result<SpirvFiles> MakeSpirvFiles(const plan::ProgramPlan& plan, const DeviceProfile& profile,
                                  const CompileOptions& options) {
#ifdef KRAFLA_HAVE_VULKAN
  const StoredTuned stored = ReadTuned(profile);
  if (!stored.ignored.empty()) std::fprintf(stderr, "krafla: stored tuning is not used: %s\n", stored.ignored.c_str());
  KRAFLA_ASSIGN(const EmittedKernels emitted, EmitKernels(plan, profile, options, &stored.tuned));
#else
  KRAFLA_ASSIGN(const EmittedKernels emitted, EmitKernels(plan, profile, options));
#endif
  SpirvFiles out;
  KernelList list(profile.name);
  const auto add = [&](const spirv::EmittedKernel& kernel, std::size_t k, std::string_view name,
                       std::string_view family, const std::vector<spirv::EmittedDispatch>& dispatches, std::size_t n) {
    out.list += Format("{} {}: {}, {} words, local size {}x{}x{}; {}\n", k, name, kernel.variant, kernel.words.size(),
                       kernel.local_size[0], kernel.local_size[1], kernel.local_size[2], kernel.reason);
    std::string file = Format("{:03}.{}.spv", k, n);
    list.Add(kernel, file, name, family, dispatches, n);
    out.files.push_back({std::move(file), kernel.words});
  };
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    if (!emitted.launched[k]) continue;
    const plan::KernelPlan& kernel = plan.kernels[k];
    if (!emitted.programs[k]) {
      out.list += Format("{} {}: on the CPU: {}\n", k, kernel.name, emitted.refusals[k]);
      list.AddOnCpu(kernel.name, emitted.refusals[k]);
      continue;
    }
    const spirv::EmittedProgram& program = *emitted.programs[k];
    for (std::size_t n = 0; n < program.kernels.size(); ++n)
      add(program.kernels[n], k, kernel.name, plan::FamilyName(kernel), program.dispatches, n);
  }
  // Numbered behind the kernels.
  std::size_t number = plan.kernels.size();
  for (const auto& [step, loop] : emitted.loops) {
    std::vector<spirv::EmittedDispatch> dispatches;
    for (const spirv::EmittedLoop::Launch& launch : loop.launches)
      dispatches.push_back({static_cast<int>(dispatches.size()), launch.grid, {}});
    for (std::size_t n = 0; n < loop.launches.size(); ++n)
      add(loop.launches[n].kernel, number, step->instruction->name(), "while", dispatches, n);
    ++number;
  }
  out.kernels = list.ToString();
  return out;
}

}  // namespace krafla::cli
