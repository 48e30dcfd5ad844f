// SPDX-License-Identifier: Apache-2.0
#define VOLK_IMPLEMENTATION
#include <volk.h>

#include "vk_runtime/instance_functions.h"

namespace krafla::vk {

std::mutex& LoaderMutex() {
  static std::mutex& mutex = *new std::mutex;  // devices may end after this library's own statics
  return mutex;
}

// volkLoadDeviceTable asks the vkGetDeviceProcAddr of the instance that was loaded last.
void LoadDeviceTable(VolkDeviceTable& table, VkDevice device, PFN_vkGetDeviceProcAddr get) {
  struct Source {
    VkDevice device;
    PFN_vkGetDeviceProcAddr get;
  } source = {device, get};
  const std::lock_guard lock(LoaderMutex());
  volkGenLoadDeviceTable(&table, &source, [](void* context, const char* name) -> PFN_vkVoidFunction {
    const auto& from = *static_cast<const Source*>(context);
    return from.get(from.device, name);
  });
}

}  // namespace krafla::vk
