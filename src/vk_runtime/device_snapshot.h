// SPDX-License-Identifier: Apache-2.0
// A physical device as plain data.
#pragma once

#include <cstdint>
#include <optional>

#include "device/device_profile.h"
#include "krafla/status.h"
#include "vk_runtime/feature_chain.h"
#include "vk_runtime/instance_functions.h"

namespace krafla {
struct VulkanDevice;
}  // namespace krafla

namespace krafla::vk {

struct QueuePlace {
  uint32_t family = 0, index = 0;
};

struct PhysicalDevice {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  DeviceProfile profile;
  Extensions extensions;
  uint32_t api_version = 0;           // of the device, capped at what the instance was created with
  uint32_t compute_queue_family = 0;  // one that has compute, preferably with graphics: never a slow side queue
  // A second queue that computes: of a family without graphics, which runs beside the other, or of the same family.
  std::optional<QueuePlace> side_queue = {};
};

// Nothing for a device that has no compute queue or only Vulkan 1.0. `app`: as if the device had only what that has
// enabled, with its queue family.
Result<std::optional<PhysicalDevice>> SnapshotDevice(const InstanceFunctions& vk, VkPhysicalDevice handle,
                                                     const VulkanDevice* app = nullptr);

}  // namespace krafla::vk
