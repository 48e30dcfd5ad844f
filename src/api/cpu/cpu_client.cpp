// SPDX-License-Identifier: Apache-2.0
#include "api/cpu/cpu_client.h"

#include <utility>

#include "api/bounded_executable.h"
#include "api/cpu/cpu_executable.h"
#include "api/front_end.h"
#include "api/packed_executable.h"

namespace krafla {
namespace {

DeviceDescription DescribeCpu(std::string_view passed_over) {
  return {.selector = "cpu",
          .description = passed_over.empty() ? "cpu" : Format("cpu, as there is no Vulkan device ({})", passed_over),
          .name = "cpu",
          .shares_host_memory = true,
          .runs_on_host_threads = true,
          .target = kCpuTarget};
}

class CpuClient : public Client {
 public:
  explicit CpuClient(std::string_view passed_over) : passed_over_(passed_over) { device_ = DescribeCpu(passed_over); }

  Result<std::unique_ptr<Executable>> Compile(std::unique_ptr<Module> module, const CompileOptions& options) override {
    return WithoutExceptions([&] { return TryCompile(std::move(module), options); });
  }

 private:
  Result<std::unique_ptr<Executable>> TryCompile(std::unique_ptr<Module> module, const CompileOptions& options) {
    if (options.strict && !passed_over_.empty())
      return Unavailable("There is no device that could take every step: {} Choose the device cpu, or drop --strict.",
                         passed_over_);
    CompileReport report;
    FrontEnd front_end(std::move(module), options, report, device_.target);
    KRAFLA_TRY(front_end.Optimize());
    KRAFLA_ASSIGN(plan::ProgramPlan plan, front_end.Plan(nullptr));
    auto services = std::make_unique<HostServices>(CustomCallsOf(options),
                                                   options.transfers != nullptr ? options.transfers : transfers_);
    KRAFLA_ASSIGN(std::unique_ptr<Executable> out,
                  CpuExecutable::Create(std::move(plan), front_end.interface(), std::move(report), device_.description,
                                        std::move(services), options));
    KRAFLA_ASSIGN(out, WithPackedEdges(std::move(out), front_end.packed_edges()));
    return WithRunTimeSizes(std::move(out));
  }

  std::string passed_over_;
};

}  // namespace

Result<std::vector<DeviceDescription>> ListCpuDevices() { return std::vector{DescribeCpu({})}; }

Result<std::shared_ptr<Client>> CreateCpuClient(std::string_view selector, const ClientOptions&,
                                                std::string_view passed_over) {
  if (selector != "cpu") return InvalidArgument("Unknown device '{}'. The CPU is one device: cpu.", selector);
  return std::make_shared<CpuClient>(passed_over);
}

}  // namespace krafla
