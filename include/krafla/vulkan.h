// SPDX-License-Identifier: Apache-2.0
// krafla inside an application's own Vulkan device.
//
//   VulkanDevice mine;
//   mine.instance = instance, mine.physical_device = physical, mine.device = device, ...
//   Result<LocalClient> client = WrapVulkanDevice(mine);
//
// Needs Vulkan's headers (Debian: libvulkan-dev), and a krafla that was built with Vulkan. Programs that take Vulkan
// from a loader library such as volk include that first, or define VK_NO_PROTOTYPES.
#pragma once

#include <vulkan/vulkan_core.h>

#include <functional>
#include <string>
#include <vector>

#include "krafla/export.h"
#include "krafla/local_client.h"

KRAFLA_EXPORT_BEGIN
namespace krafla {

// What an application has made for itself. All handles outlive the client and all that is made with it, buffers
// included; krafla destroys none of them.
struct VulkanDevice {
  VkInstance instance = VK_NULL_HANDLE;
  VkPhysicalDevice physical_device = VK_NULL_HANDLE;
  VkDevice device = VK_NULL_HANDLE;
  // Where every other function comes from. krafla calls no Vulkan that it has found by itself.
  PFN_vkGetInstanceProcAddr get_instance_proc_addr = nullptr;
  // VkApplicationInfo::apiVersion of the instance: at least 1.1. Nothing newer is used, though the device has it.
  uint32_t api_version = VK_API_VERSION_1_1;

  // A queue with compute that the device was made with: by its handle, or by its index in the family, where it was made
  // without flags.
  uint32_t queue_family = 0;
  uint32_t queue_index = 0;
  VkQueue queue = VK_NULL_HANDLE;
  // Vulkan wants one user of a queue at a time. Called around each use by krafla, by any thread, for as long as one
  // vkQueueSubmit takes. Both or neither; without them nobody else, no second client either, uses the queue while
  // krafla may.
  std::function<void()> lock_queue = {}, unlock_queue = {};

  // What the device was made with: the features with their chain, structs of single features and
  // VkPhysicalDeviceVulkan11Features to 14 alike, and the extensions. What is not said here counts as absent. Read
  // before WrapVulkanDevice returns, and not after. Null: none.
  const VkPhysicalDeviceFeatures2* features = nullptr;
  std::vector<std::string> extensions = {};
};

// INVALID_ARGUMENT where a handle or a function is missing. Once the device is lost, everything on it fails with
// ABORTED, what is compiled later too: the application makes another, and wraps that.
Result<LocalClient> WrapVulkanDevice(const VulkanDevice& device, const ClientOptions& options = {});

}  // namespace krafla
KRAFLA_EXPORT_END
