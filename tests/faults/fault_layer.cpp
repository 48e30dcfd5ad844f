// SPDX-License-Identifier: Apache-2.0
// VK_LAYER_KRAFLA_fault: a Vulkan layer that makes one call fail. It wraps what krafla calls and the driver may refuse;
// all else goes straight to the driver. fault_control.h says how it is steered.
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fault_control.h"

#define KRAFLA_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// Instance functions first, then those that are looked up on a device. `kGone`: of a lost device they fail for ever.
#define KRAFLA_INSTANCE_FUNCTIONS(X)      \
  X(vkCreateInstance)                     \
  X(vkEnumeratePhysicalDevices)           \
  X(vkEnumerateDeviceExtensionProperties) \
  X(vkCreateDevice)
#define KRAFLA_DEVICE_FUNCTIONS(X)      \
  X(vkCreateSemaphore, kMade)           \
  X(vkCreateFence, kMade)               \
  X(vkAllocateMemory, kMade)            \
  X(vkMapMemory, kGone)                 \
  X(vkCreateBuffer, kMade)              \
  X(vkBindBufferMemory, kMade)          \
  X(vkCreatePipelineLayout, kMade)      \
  X(vkCreateDescriptorSetLayout, kMade) \
  X(vkCreateDescriptorPool, kMade)      \
  X(vkAllocateDescriptorSets, kMade)    \
  X(vkCreatePipelineCache, kMade)       \
  X(vkGetPipelineCacheData, kMade)      \
  X(vkCreateShaderModule, kMade)        \
  X(vkCreateComputePipelines, kMade)    \
  X(vkCreateCommandPool, kMade)         \
  X(vkAllocateCommandBuffers, kMade)    \
  X(vkBeginCommandBuffer, kMade)        \
  X(vkEndCommandBuffer, kMade)          \
  X(vkQueueSubmit, kGone)               \
  X(vkWaitSemaphores, kGone)            \
  X(vkGetSemaphoreCounterValue, kGone)  \
  X(vkResetFences, kMade)               \
  X(vkWaitForFences, kGone)             \
  X(vkGetFenceStatus, kGone)            \
  X(vkDeviceWaitIdle, kGone)

enum Function : int {
#define X(name, ...) k_##name,
  KRAFLA_INSTANCE_FUNCTIONS(X) KRAFLA_DEVICE_FUNCTIONS(X)
#undef X
      kFunctions
};
enum AfterLoss { kMade, kGone };

constexpr const char* kNames[] = {
#define X(name, ...) #name,
    KRAFLA_INSTANCE_FUNCTIONS(X) KRAFLA_DEVICE_FUNCTIONS(X)
#undef X
};

std::atomic<int> armed_function = -1;
std::atomic<int64_t> armed_call = 0;
std::atomic<int32_t> armed_result = 0;
std::atomic<bool> struck = false;
std::array<std::atomic<int64_t>, kFunctions> calls;

// The fault that this call is to meet, or VK_SUCCESS.
VkResult Next(int function) {
  const int64_t number = calls[static_cast<std::size_t>(function)].fetch_add(1) + 1;
  if (armed_function != function || armed_call != number || struck.exchange(true)) return VK_SUCCESS;
  return static_cast<VkResult>(armed_result.load());
}

// The loader's dispatch table is the first word of every dispatchable object; those of one device share it.
void* KeyOf(void* handle) { return *static_cast<void**>(handle); }

struct InstanceData {
  VkInstance handle = VK_NULL_HANDLE;
  PFN_vkGetInstanceProcAddr next = nullptr;
};
// A device that is being lost takes no work, and what it has is waited for; only then is it told to anybody that it is
// lost. What a reset device was doing is over, but software drivers go on, and would work on what is destroyed next.
enum class Life { kAlive, kEnding, kLost };
struct DeviceData {
  VkDevice handle = VK_NULL_HANDLE;
  PFN_vkGetDeviceProcAddr next = nullptr;
  std::array<PFN_vkVoidFunction, kFunctions> functions = {};
  std::atomic<Life> life = Life::kAlive;
  std::atomic<int> submitting = 0;  // threads that give the driver work
};
std::mutex mutex;
std::map<void*, InstanceData> instances;
std::map<void*, std::unique_ptr<DeviceData>> devices;

template <typename Handle>
DeviceData& DeviceOf(Handle handle) {
  std::lock_guard lock(mutex);
  return *devices.at(KeyOf(handle));
}
template <typename Handle>
InstanceData InstanceOf(Handle handle) {
  std::lock_guard lock(mutex);
  return instances.at(KeyOf(handle));
}

void Lose(DeviceData& device) {
  device.life = Life::kEnding;
  while (device.submitting > 0) std::this_thread::yield();
  reinterpret_cast<PFN_vkDeviceWaitIdle>(device.functions[k_vkDeviceWaitIdle])(device.handle);
  device.life = Life::kLost;
}

bool IsLost(const DeviceData& device) {
  while (device.life == Life::kEnding) std::this_thread::yield();
  return device.life == Life::kLost;
}

template <int kFunction, AfterLoss kAfter, typename F>
struct Wrapped;
template <int kFunction, AfterLoss kAfter, typename First, typename... Rest>
struct Wrapped<kFunction, kAfter, VkResult(VKAPI_PTR*)(First, Rest...)> {
  static VKAPI_ATTR VkResult VKAPI_CALL Call(First first, Rest... rest) {
    DeviceData& device = DeviceOf(first);
    if (kAfter == kGone && IsLost(device)) return VK_ERROR_DEVICE_LOST;
    const VkResult fault = Next(kFunction);
    if (fault == VK_ERROR_DEVICE_LOST) Lose(device);
    if (fault != VK_SUCCESS) return fault;
    const auto call = reinterpret_cast<VkResult(VKAPI_PTR*)(First, Rest...)>(device.functions[kFunction]);
    if constexpr (kFunction != k_vkQueueSubmit) return call(first, rest...);
    ++device.submitting;
    const bool is_alive = device.life == Life::kAlive;
    const VkResult result = is_alive ? call(first, rest...) : VK_ERROR_DEVICE_LOST;
    --device.submitting;
    if (!is_alive) IsLost(device);  // returns when the loss is complete
    return result;
  }
};

VKAPI_ATTR void VKAPI_CALL DestroyInstance(VkInstance instance, const VkAllocationCallbacks* callbacks) {
  if (instance == VK_NULL_HANDLE) return;
  const InstanceData data = InstanceOf(instance);
  {
    std::lock_guard lock(mutex);
    instances.erase(KeyOf(instance));
  }
  reinterpret_cast<PFN_vkDestroyInstance>(data.next(data.handle, "vkDestroyInstance"))(instance, callbacks);
}

VKAPI_ATTR VkResult VKAPI_CALL CreateInstance(const VkInstanceCreateInfo* info, const VkAllocationCallbacks* callbacks,
                                              VkInstance* out) {
  if (const VkResult fault = Next(k_vkCreateInstance); fault != VK_SUCCESS) return fault;
  auto* link = const_cast<VkLayerInstanceCreateInfo*>(static_cast<const VkLayerInstanceCreateInfo*>(info->pNext));
  while (link != nullptr &&
         (link->sType != VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO || link->function != VK_LAYER_LINK_INFO))
    link = const_cast<VkLayerInstanceCreateInfo*>(static_cast<const VkLayerInstanceCreateInfo*>(link->pNext));
  if (link == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
  PFN_vkGetInstanceProcAddr next = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  const VkResult r = reinterpret_cast<PFN_vkCreateInstance>(next(nullptr, "vkCreateInstance"))(info, callbacks, out);
  if (r != VK_SUCCESS) return r;
  std::lock_guard lock(mutex);
  instances[KeyOf(*out)] = {*out, next};
  return r;
}

VKAPI_ATTR VkResult VKAPI_CALL EnumeratePhysicalDevices(VkInstance instance, uint32_t* count, VkPhysicalDevice* out) {
  if (const VkResult fault = Next(k_vkEnumeratePhysicalDevices); fault != VK_SUCCESS) return fault;
  const InstanceData data = InstanceOf(instance);
  return reinterpret_cast<PFN_vkEnumeratePhysicalDevices>(data.next(data.handle, "vkEnumeratePhysicalDevices"))(
      instance, count, out);
}

VKAPI_ATTR VkResult VKAPI_CALL EnumerateDeviceExtensions(VkPhysicalDevice physical, const char* layer, uint32_t* count,
                                                         VkExtensionProperties* out) {
  if (const VkResult fault = Next(k_vkEnumerateDeviceExtensionProperties); fault != VK_SUCCESS) return fault;
  const InstanceData data = InstanceOf(physical);
  return reinterpret_cast<PFN_vkEnumerateDeviceExtensionProperties>(
      data.next(data.handle, "vkEnumerateDeviceExtensionProperties"))(physical, layer, count, out);
}

VKAPI_ATTR void VKAPI_CALL DestroyDevice(VkDevice device, const VkAllocationCallbacks* callbacks) {
  if (device == VK_NULL_HANDLE) return;
  std::unique_ptr<DeviceData> data;
  {
    std::lock_guard lock(mutex);
    auto it = devices.find(KeyOf(device));
    data = std::move(it->second);
    devices.erase(it);
  }
  reinterpret_cast<PFN_vkDestroyDevice>(data->next(device, "vkDestroyDevice"))(device, callbacks);
}

VKAPI_ATTR VkResult VKAPI_CALL CreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                            const VkAllocationCallbacks* callbacks, VkDevice* out) {
  if (const VkResult fault = Next(k_vkCreateDevice); fault != VK_SUCCESS) return fault;
  auto* link = const_cast<VkLayerDeviceCreateInfo*>(static_cast<const VkLayerDeviceCreateInfo*>(info->pNext));
  while (link != nullptr &&
         (link->sType != VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO || link->function != VK_LAYER_LINK_INFO))
    link = const_cast<VkLayerDeviceCreateInfo*>(static_cast<const VkLayerDeviceCreateInfo*>(link->pNext));
  if (link == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
  PFN_vkGetInstanceProcAddr next_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  PFN_vkGetDeviceProcAddr next = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  const InstanceData instance = InstanceOf(physical);
  const VkResult r = reinterpret_cast<PFN_vkCreateDevice>(next_instance(instance.handle, "vkCreateDevice"))(
      physical, info, callbacks, out);
  if (r != VK_SUCCESS) return r;
  auto data = std::make_unique<DeviceData>();
  data->handle = *out;
  data->next = next;
  for (int f = k_vkCreateSemaphore; f < kFunctions; ++f) {
    data->functions[static_cast<std::size_t>(f)] = next(*out, kNames[f]);
    // Before Vulkan 1.2 some of them are an extension's.
    if (data->functions[static_cast<std::size_t>(f)] == nullptr)
      data->functions[static_cast<std::size_t>(f)] = next(*out, (std::string(kNames[f]) + "KHR").c_str());
  }
  std::lock_guard lock(mutex);
  devices[KeyOf(*out)] = std::move(data);
  return r;
}

}  // namespace

KRAFLA_EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL krafla_fault_GetDeviceProcAddr(VkDevice device,
                                                                                      const char* name) {
  const auto is = [&](const char* wanted) { return std::strcmp(name, wanted) == 0; };
  if (is("vkGetDeviceProcAddr")) return reinterpret_cast<PFN_vkVoidFunction>(&krafla_fault_GetDeviceProcAddr);
  if (is("vkDestroyDevice")) return reinterpret_cast<PFN_vkVoidFunction>(&DestroyDevice);
  const DeviceData& data = DeviceOf(device);
  const PFN_vkVoidFunction next = data.next(device, name);
  if (next == nullptr) return nullptr;
#define X(function, after)                  \
  if (is(#function) || is(#function "KHR")) \
    return reinterpret_cast<PFN_vkVoidFunction>(&Wrapped<k_##function, after, PFN_##function>::Call);
  KRAFLA_DEVICE_FUNCTIONS(X)
#undef X
  return next;
}

KRAFLA_EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL krafla_fault_GetInstanceProcAddr(VkInstance instance,
                                                                                        const char* name) {
  const auto is = [&](const char* wanted) { return std::strcmp(name, wanted) == 0; };
  if (is("vkGetInstanceProcAddr")) return reinterpret_cast<PFN_vkVoidFunction>(&krafla_fault_GetInstanceProcAddr);
  if (is("vkGetDeviceProcAddr")) return reinterpret_cast<PFN_vkVoidFunction>(&krafla_fault_GetDeviceProcAddr);
  if (is("vkCreateInstance")) return reinterpret_cast<PFN_vkVoidFunction>(&CreateInstance);
  if (is("vkDestroyInstance")) return reinterpret_cast<PFN_vkVoidFunction>(&DestroyInstance);
  if (is("vkEnumeratePhysicalDevices")) return reinterpret_cast<PFN_vkVoidFunction>(&EnumeratePhysicalDevices);
  if (is("vkEnumerateDeviceExtensionProperties"))
    return reinterpret_cast<PFN_vkVoidFunction>(&EnumerateDeviceExtensions);
  if (is("vkCreateDevice")) return reinterpret_cast<PFN_vkVoidFunction>(&CreateDevice);
  if (instance == VK_NULL_HANDLE) return nullptr;
  const InstanceData data = InstanceOf(instance);
  return data.next(instance, name);
}

KRAFLA_EXPORT VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface* interface) {
  if (interface->loaderLayerInterfaceVersion > 2) interface->loaderLayerInterfaceVersion = 2;
  interface->pfnGetInstanceProcAddr = &krafla_fault_GetInstanceProcAddr;
  interface->pfnGetDeviceProcAddr = &krafla_fault_GetDeviceProcAddr;
  interface->pfnGetPhysicalDeviceProcAddr = nullptr;
  return VK_SUCCESS;
}

KRAFLA_EXPORT const char* krafla_fault_name(int function) {
  return function >= 0 && function < kFunctions ? kNames[function] : nullptr;
}
KRAFLA_EXPORT void krafla_fault_arm(int function, int64_t n, int32_t result) {
  armed_call = 0;
  struck = false;
  for (auto& count : calls) count = 0;
  armed_function = function;
  armed_result = result;
  armed_call = n;
}
// For programs that do not know of the layer: KRAFLA_FAULT=vkCreateBuffer:3:-2 is armed from the beginning.
__attribute__((constructor)) static void ArmFromEnvironment() {
  const char* wish = std::getenv("KRAFLA_FAULT");
  const char* first = wish != nullptr ? std::strchr(wish, ':') : nullptr;
  const char* second = first != nullptr ? std::strchr(first + 1, ':') : nullptr;
  if (second == nullptr) return;
  for (int f = 0; f < kFunctions; ++f)
    if (std::strlen(kNames[f]) == static_cast<std::size_t>(first - wish) &&
        std::strncmp(kNames[f], wish, static_cast<std::size_t>(first - wish)) == 0)
      krafla_fault_arm(f, std::atoll(first + 1), static_cast<int32_t>(std::atoi(second + 1)));
}

KRAFLA_EXPORT int64_t krafla_fault_calls(int function) { return calls[static_cast<std::size_t>(function)]; }
KRAFLA_EXPORT int krafla_fault_struck() { return struck ? 1 : 0; }
