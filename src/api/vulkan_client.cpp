// SPDX-License-Identifier: Apache-2.0
#include "api/vulkan_client.h"

#include <mutex>

#include "api/bounded_executable.h"
#include "api/emitted_kernels.h"
#include "api/front_end.h"
#include "api/host_services.h"
#include "api/self_test_cases.h"
#include "api/vulkan_executable.h"
#include "vk_runtime/instance.h"

namespace krafla {
namespace {

DeviceDescription Describe(const DeviceProfile& profile, std::size_t number) {
  DeviceDescription out;
  out.selector = Format("vulkan:{}", number);
  out.description = Format("vulkan:{} ({}, {})", number, profile.name,
                                profile.driver_info.empty() ? profile.driver_name : profile.driver_info);
  out.profile = profile;
  return out;
}

class VulkanClient : public Client {
 public:
  VulkanClient(std::shared_ptr<vk::Instance> instance, const vk::PhysicalDevice& physical, std::size_t number)
      : instance_(std::move(instance)), physical_(physical) {
    device_ = Describe(physical.profile, number);
  }

  Result<std::unique_ptr<Executable>> Compile(std::unique_ptr<Module> module, const CompileOptions& options) override {
    return WithoutExceptions([&] { return TryCompile(std::move(module), options); });
  }

  // On the device that the last program was compiled for: clients have one, unless programs switch features off.
  Result<std::shared_ptr<DeviceBuffer>> ToDevice(std::shared_ptr<const Literal> literal) override {
    return WithoutExceptions([&]() -> Result<std::shared_ptr<DeviceBuffer>> {
      KRAFLA_ASSIGN(std::shared_ptr<vk::Device> device, CurrentDevice());
      return VulkanBuffer::Of(*device, literal);
    });
  }

  std::vector<std::string> TakeValidationMessages() override { return instance_->TakeValidationMessages(); }

 private:
  Result<std::unique_ptr<Executable>> TryCompile(std::unique_ptr<Module> module, const CompileOptions& options) {
    CompileReport report;
    EntryInterface interface = EntryInterface::Of(*module);
    KRAFLA_ASSIGN(plan::ProgramPlan plan, OptimizeAndPlan(std::move(module), options, report, /*on_vulkan=*/true));
    // Only names that profiles know switch device features; the others are passes and "fusion".
    std::set<std::string> off;
    for (const std::string& name : options.disabled)
      for (const FeatureName& known : FeatureNames())
        if (known.name == name) off.insert(name);
    // Kernels that are not ours have their buffers as descriptors.
    if (UsesCustomKernels(plan, CustomCallsOf(options))) off.insert("bda");
    // As the code generator decides (EmitOptions).
    bool matrices = options.enabled.contains("coopmat") || !physical_.profile.is_cpu;
    KRAFLA_ASSIGN(Tested tested, DeviceWithout({off.begin(), off.end()}, matrices));
    auto services = std::make_unique<HostServices>(CustomCallsOf(options),
                                                   options.transfers != nullptr ? options.transfers : transfers_);
    KRAFLA_ASSIGN(std::unique_ptr<Executable> out,
                  VulkanExecutable::Create(tested.device, tested.device->profile(), std::move(plan), options,
                                           std::move(report), device_.description + tested.note, std::move(services)));
    return WithRunTimeSizes(std::move(interface), std::move(out));
  }

  // A device that has gone through the self-test, and what that has switched off, said for people.
  struct Tested {
    std::shared_ptr<vk::Device> device;
    std::string note;
  };

  // `matrices`: the self-test tries cooperative matrices too.
  Result<Tested> DeviceWithout(const std::vector<std::string>& names, bool matrices) {
    std::lock_guard lock(mutex_);
    auto it = devices_.find({names, matrices});
    if (it != devices_.end()) return current_ = it->second;
    KRAFLA_ASSIGN(DeviceProfile profile, physical_.profile.WithDisabled(names));
    KRAFLA_ASSIGN(std::shared_ptr<vk::Device> made, vk::Device::Create(instance_, physical_, profile));
    KRAFLA_ASSIGN(std::vector<vk::SelfTestCase> cases, SelfTestCases(profile, matrices));
    KRAFLA_ASSIGN(vk::SelfTestOutcome outcome, vk::RunSelfTest(made, cases));
    std::string note;
    if (!outcome.failed.empty()) {
      // What the driver computes wrongly is not used, and said.
      note = "; switched off by the self-test:";
      for (const std::string& name : outcome.failed) note += " " + name;
      KRAFLA_ASSIGN(profile, profile.WithDisabled(outcome.failed));
      KRAFLA_ASSIGN(made, vk::Device::Create(instance_, physical_, profile));
    }
    return current_ = devices_[{names, matrices}] = {std::move(made), std::move(note)};
  }
  Result<std::shared_ptr<vk::Device>> CurrentDevice() {
    {
      std::lock_guard lock(mutex_);
      if (current_.device != nullptr) return current_.device;
    }
    KRAFLA_ASSIGN(Tested tested, DeviceWithout({}, !physical_.profile.is_cpu));
    return std::move(tested.device);
  }

  std::shared_ptr<vk::Instance> instance_;
  vk::PhysicalDevice physical_;
  std::mutex mutex_;  // of what follows
  // By what is switched off, and whether cooperative matrices were tested.
  std::map<std::pair<std::vector<std::string>, bool>, Tested> devices_;
  Tested current_;
};

}  // namespace

Result<std::vector<DeviceDescription>> ListVulkanDevices() {
  KRAFLA_ASSIGN(std::shared_ptr<vk::Instance> instance, vk::Instance::Create());
  std::vector<DeviceDescription> out;
  for (const vk::PhysicalDevice& d : instance->devices()) out.push_back(Describe(d.profile, out.size()));
  return out;
}

Result<std::shared_ptr<Client>> CreateVulkanClient(std::string_view selector) {
  KRAFLA_ASSIGN(std::shared_ptr<vk::Instance> instance, vk::Instance::Create());
  KRAFLA_ASSIGN(const vk::PhysicalDevice* physical, instance->Select(selector));
  auto number = static_cast<std::size_t>(physical - instance->devices().data());
  return std::make_shared<VulkanClient>(instance, *physical, number);
}

}  // namespace krafla
