// SPDX-License-Identifier: Apache-2.0
#include "api/vulkan/vulkan_probes.h"

#include "device/workarounds.h"
#include "vk_runtime/cache_file.h"
#include "vk_runtime/instance.h"

namespace krafla {

Result<ProbedDevice> ProbeVulkanDevice(std::string_view selector) {
  KRAFLA_ASSIGN(std::shared_ptr<vk::Instance> instance, vk::Instance::Create());
  KRAFLA_ASSIGN(const vk::PhysicalDevice* physical, instance->Select(selector));
  KRAFLA_ASSIGN(auto device, vk::Device::Create(instance, *physical, physical->profile));
  KRAFLA_ASSIGN(auto reports, vk::RunProbes(device));
  return ProbedDevice{physical->profile.name, std::move(reports)};
}

std::vector<std::string> WorkaroundNames(const DeviceProfile& profile) {
  const Workarounds found = WorkaroundsFor(profile);
  std::vector<std::string> out;
  if (found.zero_quotients_from_bits) out.push_back("zero quotients from bits");
  if (found.u32_to_f32_in_halves) out.push_back("u32 to f32 in halves");
  if (found.corrects_division) out.push_back("division corrected");
  if (found.loads_without_lanes) out.push_back("loads kept within buffers");
  if (found.overcommits_memory) out.push_back("memory asked for first");
  return out;
}

std::string CacheFolder() { return vk::DefaultCacheDir(); }

}  // namespace krafla
