// SPDX-License-Identifier: Apache-2.0
// The functions of one instance, and the way to those of its devices. Not volk's globals: an application's instance may
// come from another loader than ours, and both are used at once.
#pragma once

#include <mutex>

#include "vk_runtime/vk_api.h"

namespace krafla::vk {

// All of Vulkan 1.1.
#define KRAFLA_INSTANCE_FUNCTIONS(X)             \
  X(vkDestroyInstance)                           \
  X(vkEnumeratePhysicalDevices)                  \
  X(vkEnumerateDeviceExtensionProperties)        \
  X(vkGetPhysicalDeviceProperties)               \
  X(vkGetPhysicalDeviceProperties2)              \
  X(vkGetPhysicalDeviceFeatures2)                \
  X(vkGetPhysicalDeviceMemoryProperties)         \
  X(vkGetPhysicalDeviceMemoryProperties2)        \
  X(vkGetPhysicalDeviceQueueFamilyProperties)    \
  X(vkGetPhysicalDeviceExternalBufferProperties) \
  X(vkEnumeratePhysicalDeviceGroups)             \
  X(vkCreateDevice)                              \
  X(vkGetDeviceProcAddr)
// Of extensions: perhaps null.
#define KRAFLA_INSTANCE_EXTENSION_FUNCTIONS(X)                          \
  X(vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)                  \
  X(vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV) \
  X(vkCreateDebugUtilsMessengerEXT)                                     \
  X(vkDestroyDebugUtilsMessengerEXT)

struct InstanceFunctions {
#define KRAFLA_FUNCTION(name) PFN_##name name = nullptr;
  KRAFLA_INSTANCE_FUNCTIONS(KRAFLA_FUNCTION)
  KRAFLA_INSTANCE_EXTENSION_FUNCTIONS(KRAFLA_FUNCTION)
#undef KRAFLA_FUNCTION

  // The name of a function of Vulkan 1.1 that `get` does not have; null where it has all.
  const char* Load(PFN_vkGetInstanceProcAddr get, VkInstance instance) {
    const char* missing = nullptr;
#define KRAFLA_LOAD(name) name = reinterpret_cast<PFN_##name>(get(instance, #name));
    KRAFLA_INSTANCE_FUNCTIONS(KRAFLA_LOAD)
    KRAFLA_INSTANCE_EXTENSION_FUNCTIONS(KRAFLA_LOAD)
#undef KRAFLA_LOAD
#define KRAFLA_CHECK_LOADED(name) \
  if (name == nullptr) missing = #name;
    KRAFLA_INSTANCE_FUNCTIONS(KRAFLA_CHECK_LOADED)
#undef KRAFLA_CHECK_LOADED
    return missing;
  }
};

// Held while instances and devices are made, listed and ended, and while a device's functions are looked up. The
// loader's vkGetDeviceProcAddr goes through the lists of all of them without a lock, and ends the process where another
// thread changes them; so does vkEnumeratePhysicalDevices, which unloads drivers that have no device. (Vulkan-Loader
// 1.4, loader_get_icd_and_device and unload_drivers_without_physical_devices.)
std::mutex& LoaderMutex();

// Every function of a device, straight from `get`.
void LoadDeviceTable(VolkDeviceTable& table, VkDevice device, PFN_vkGetDeviceProcAddr get);

}  // namespace krafla::vk
