// SPDX-License-Identifier: Apache-2.0
#include "api/cpu/cpu_client.h"

#include <utility>

#include "api/bounded_executable.h"
#include "api/cpu/cpu_executable.h"
#include "api/front_end.h"

namespace krafla {

CpuClient::CpuClient(std::string why_not_vulkan) : why_not_vulkan_(std::move(why_not_vulkan)) {
  device_.selector = "cpu";
  device_.description =
      why_not_vulkan_.empty() ? "cpu" : Format("cpu, as there is no Vulkan device ({})", why_not_vulkan_);
  device_.is_cpu = true;
}

Result<std::unique_ptr<Executable>> CpuClient::Compile(std::unique_ptr<Module> module, const CompileOptions& options) {
  return WithoutExceptions([&]() -> Result<std::unique_ptr<Executable>> {
    if (options.strict && !why_not_vulkan_.empty())
      return Unavailable("There is no device that could take every step: {} Choose the device cpu, or drop --strict.",
                         why_not_vulkan_);
    CompileReport report;
    FrontEnd front_end(std::move(module), options, report, /*on_vulkan=*/false);
    KRAFLA_TRY(front_end.Optimize());
    KRAFLA_ASSIGN(plan::ProgramPlan plan, front_end.Plan(nullptr));
    auto services = std::make_unique<HostServices>(CustomCallsOf(options),
                                                   options.transfers != nullptr ? options.transfers : transfers_);
    KRAFLA_ASSIGN(std::unique_ptr<Executable> out,
                  CpuExecutable::Create(std::move(plan), std::move(report), device_.description, std::move(services),
                                        options.threads));
    return WithRunTimeSizes(front_end.interface(), std::move(out));
  });
}

}  // namespace krafla
