// SPDX-License-Identifier: Apache-2.0
#include "api/vulkan/vulkan_client.h"

#include <algorithm>
#include <mutex>

#include "api/bounded_executable.h"
#include "api/front_end.h"
#include "api/host/host_services.h"
#include "api/packed_executable.h"
#include "api/vulkan/emitted_kernels.h"
#include "api/vulkan/self_test_cases.h"
#include "api/vulkan/vulkan_executable.h"
#include "device/tuning.h"
#include "vk_runtime/instance.h"

namespace krafla {
namespace {

int64_t LargestHeap(const DeviceProfile& profile) {
  uint64_t largest = 0;
  for (const MemoryHeap& heap : profile.heaps)
    if (heap.device_local) largest = std::max(largest, heap.bytes);
  return static_cast<int64_t>(largest);
}

DeviceDescription Describe(const DeviceProfile& profile, std::size_t number) {
  DeviceDescription out;
  out.selector = Format("vulkan:{}", number);
  out.description = Format("vulkan:{} ({}, {})", number, profile.name,
                           profile.driver_info.empty() ? profile.driver_name : profile.driver_info);
  out.name = profile.name;
  out.runs_one_at_a_time = true;
  out.memory_bytes = LargestHeap(profile);
  out.target = kVulkanTarget;
  out.profile = profile;
  return out;
}

class VulkanClient : public Client {
 public:
  VulkanClient(std::shared_ptr<vk::Instance> instance, const vk::PhysicalDevice& physical, std::size_t number,
               const ClientOptions& options)
      : instance_(std::move(instance)), physical_(physical), options_(options) {
    device_ = Describe(physical.profile, number);
    if (instance_->app() == nullptr) return;
    device_.selector = Format("vulkan:uuid={}", physical.profile.device_uuid);
    device_.description =
        Format("the application's Vulkan device ({}, {})", physical.profile.name,
               physical.profile.driver_info.empty() ? physical.profile.driver_name : physical.profile.driver_info);
  }

  Result<std::unique_ptr<Executable>> Compile(std::unique_ptr<Module> module, const CompileOptions& options) override {
    return WithoutExceptions([&] { return TryCompile(std::move(module), options); });
  }

  // On the device that the last program was compiled for: clients have one, unless programs switch features off.
  Result<std::shared_ptr<DeviceBuffer>> Place(std::shared_ptr<const Literal> literal) override {
    return WithoutExceptions([&]() -> Result<std::shared_ptr<DeviceBuffer>> {
      KRAFLA_ASSIGN(std::shared_ptr<vk::Device> device, CurrentDevice());
      return VulkanBuffer::Of(*device, literal);
    });
  }

  Result<std::shared_ptr<DeviceBuffer>> PlaceView(const Shape& shape, HostView view) override {
    return WithoutExceptions([&]() -> Result<std::shared_ptr<DeviceBuffer>> {
      KRAFLA_ASSIGN(std::shared_ptr<vk::Device> device, CurrentDevice());
      return VulkanBuffer::Of(*device, shape, view);
    });
  }

  Result<std::shared_ptr<DeviceBuffer>> PlaceCopy(const Shape& shape, std::span<const std::byte> bytes) override {
    return WithoutExceptions([&]() -> Result<std::shared_ptr<DeviceBuffer>> {
      KRAFLA_ASSIGN(std::shared_ptr<vk::Device> device, CurrentDevice());
      return VulkanBuffer::CopyOf(*device, shape, bytes);
    });
  }

  std::vector<std::string> TakeValidationMessages() override { return instance_->TakeValidationMessages(); }

  // The application writes to its memory, and reads there.
  bool PacksElements() const override { return !IsOnAppDevice(); }

  bool IsOnAppDevice() const { return instance_->app() != nullptr; }
  Result<std::shared_ptr<vk::Device>> CurrentDevice() {
    {
      std::lock_guard lock(mutex_);
      if (current_.device != nullptr && current_.device->Alive()) return current_.device;
    }
    KRAFLA_ASSIGN(Tested tested, DeviceWithout({}, {}));
    return std::move(tested.device);
  }

 private:
  Result<std::unique_ptr<Executable>> TryCompile(std::unique_ptr<Module> module, const CompileOptions& given) {
    CompileReport report;
    CompileOptions options = given;
    options.pack_elements = given.pack_elements && PacksElements();
    FrontEnd front_end(std::move(module), options, report, device_.target);
    KRAFLA_TRY(front_end.Optimize());
    const MatrixKinds forced{options.enabled.contains("coopmat"), options.enabled.contains("coopmat2")};
    KRAFLA_ASSIGN(Tested tested, DeviceWithout(FeaturesOff(front_end.module(), options), forced));
    KRAFLA_ASSIGN(plan::ProgramPlan plan, front_end.Plan(&tested.device->profile()));
    auto services = std::make_unique<HostServices>(CustomCallsOf(options),
                                                   options.transfers != nullptr ? options.transfers : transfers_);
    KRAFLA_ASSIGN(
        std::unique_ptr<Executable> out,
        VulkanExecutable::Create(tested.device, tested.device->profile(), std::move(plan), front_end.interface(),
                                 options, std::move(report), device_.description + tested.note, std::move(services)));
    KRAFLA_ASSIGN(out, WithPackedEdges(std::move(out), front_end.packed_edges()));
    return WithRunTimeSizes(std::move(out));
  }

  // A device that has gone through the self-test, and what that has switched off, said for people.
  struct Tested {
    std::shared_ptr<vk::Device> device;
    std::string note;
  };

  // `forced`: these cooperative matrices are used also where the tuning does not want them.
  Result<Tested> DeviceWithout(const std::vector<std::string>& names, const MatrixKinds& forced) {
    KRAFLA_ASSIGN(DeviceProfile profile, physical_.profile.WithDisabled(names));
    KRAFLA_ASSIGN(const Tuning tuning, TuningAskedFor(profile));
    // As the code generator decides (ChooseCoopTile, ChooseFlexibleTile): what it uses the self-test tries.
    const MatrixKinds matrices{forced.fixed || tuning.coop.used,
                               forced.flexible || (tuning.coop.used && tuning.coop.flexible)};
    std::lock_guard lock(mutex_);
    auto it = devices_.find({names, matrices});
    // A lost device is made anew, where it is ours; what was compiled for it stays lost.
    if (it != devices_.end() && it->second.device->Alive()) return current_ = it->second;
    KRAFLA_ASSIGN(std::vector<vk::SelfTestCase> cases, SelfTestCases(profile, matrices));
    std::shared_ptr<vk::Device> made;
    vk::SelfTestOutcome outcome;
    // A device that is lost while a feature is tested may have been lost by anybody: it is tested once more. A feature
    // that loses its device twice is not used, and not tested again, by this device.
    std::set<std::string> suspected, off;
    while (true) {
      KRAFLA_ASSIGN(made, NewDevice(profile));
      std::string lost_in;
      auto tested = vk::RunSelfTest(made, cases, off, &lost_in);
      if (tested) {
        outcome = std::move(*tested);
        break;
      }
      if (lost_in.empty()) return Failure(std::move(tested).error());
      if (!suspected.insert(lost_in).second && !off.insert(lost_in).second) return Failure(std::move(tested).error());
    }
    std::string note;
    if (!outcome.failed.empty()) {
      // What the driver computes wrongly is not used, and said.
      note = "; switched off by the self-test:";
      for (const std::string& name : outcome.failed) note += " " + name;
      KRAFLA_ASSIGN(profile, profile.WithDisabled(outcome.failed));
      KRAFLA_ASSIGN(made, NewDevice(profile));
    }
    return current_ = devices_[{names, matrices}] = {std::move(made), std::move(note)};
  }
  Result<std::shared_ptr<vk::Device>> NewDevice(const DeviceProfile& profile) {
    // An application's device is there once: what it has lost is lost for every view of it.
    const bool is_ours = instance_->app() == nullptr;
    if (!is_ours) {
      if (last_view_ != nullptr) KRAFLA_TRY(last_view_->Alive());
      for (const auto& [key, tested] : devices_) KRAFLA_TRY(tested.device->Alive());
    }
    vk::DeviceOptions options;
    options.wait_limit = options_.wait_limit;
    options.cache_dir = options_.cache_folder;
    KRAFLA_ASSIGN(std::shared_ptr<vk::Device> made,
                  vk::Device::Create(instance_, physical_, profile, std::move(options)));
    if (!is_ours) last_view_ = made;
    return made;
  }

  std::shared_ptr<vk::Instance> instance_;
  vk::PhysicalDevice physical_;
  ClientOptions options_;
  std::mutex mutex_;  // of what follows
  // By what is switched off, and which cooperative matrices were tested.
  std::map<std::pair<std::vector<std::string>, MatrixKinds>, Tested> devices_;
  Tested current_;
  std::shared_ptr<vk::Device> last_view_;  // of an application's device
};

}  // namespace

Result<std::vector<DeviceDescription>> ListVulkanDevices() {
  KRAFLA_ASSIGN(std::shared_ptr<vk::Instance> instance, vk::Instance::Create());
  std::vector<DeviceDescription> out;
  for (const vk::PhysicalDevice& d : instance->devices()) out.push_back(Describe(d.profile, out.size()));
  return out;
}

Result<std::shared_ptr<Client>> CreateVulkanClient(std::string_view selector, const ClientOptions& options,
                                                   std::string_view) {
  KRAFLA_ASSIGN(std::shared_ptr<vk::Instance> instance, vk::Instance::Create());
  KRAFLA_ASSIGN(const vk::PhysicalDevice* physical, instance->Select(selector));
  auto number = static_cast<std::size_t>(physical - instance->devices().data());
  return std::make_shared<VulkanClient>(instance, *physical, number, options);
}

Result<std::shared_ptr<Client>> CreateVulkanClient(const VulkanDevice& device, const ClientOptions& options) {
  KRAFLA_ASSIGN(std::shared_ptr<vk::Instance> instance, vk::Instance::Wrap(device));
  const vk::PhysicalDevice& physical = instance->devices()[0];
  return std::make_shared<VulkanClient>(instance, physical, 0, options);
}

Result<std::shared_ptr<vk::Device>> AppDevice(Client& client) {
  auto* vulkan = dynamic_cast<VulkanClient*>(&client);
  if (vulkan == nullptr || !vulkan->IsOnAppDevice())
    return FailedPrecondition("{} is not an application's own Vulkan device (WrapVulkanDevice).",
                              client.device().description);
  return vulkan->CurrentDevice();
}

Result<std::shared_ptr<vk::Device>> OpenTestedDevice(std::string_view selector) {
  KRAFLA_ASSIGN(std::shared_ptr<vk::Instance> instance, vk::Instance::Create());
  KRAFLA_ASSIGN(const vk::PhysicalDevice* physical, instance->Select(selector));
  return VulkanClient(instance, *physical, 0, ClientOptions()).CurrentDevice();
}

}  // namespace krafla
