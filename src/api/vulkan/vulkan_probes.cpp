// SPDX-License-Identifier: Apache-2.0
#include "api/vulkan/vulkan_probes.h"

#include "vk_runtime/instance.h"

namespace krafla {

Result<ProbedDevice> ProbeVulkanDevice(std::string_view selector) {
  KRAFLA_ASSIGN(std::shared_ptr<vk::Instance> instance, vk::Instance::Create());
  KRAFLA_ASSIGN(const vk::PhysicalDevice* physical, instance->Select(selector));
  KRAFLA_ASSIGN(auto device, vk::Device::Create(instance, *physical, physical->profile));
  KRAFLA_ASSIGN(auto reports, vk::RunProbes(device));
  return ProbedDevice{physical->profile.name, std::move(reports)};
}

}  // namespace krafla
