// SPDX-License-Identifier: Apache-2.0
// VK_LAYER_KRAFLA_two_queues: a Vulkan layer that gives a device of one queue a second one, of a family of its own that
// computes. Each queue has a thread: it waits on the host for what a submission waits for, on the second queue a little
// longer, and then gives the driver's queue the commands. So the two run in any order that their semaphores leave open,
// and what krafla forgets to wait for is not there yet. It knows what krafla calls, and timeline semaphores alone.
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#define KRAFLA_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr auto kLongestDelay = std::chrono::microseconds(2000);

std::atomic<int64_t> beside_count = 0;  // submissions to second queues

void* KeyOf(void* handle) { return *static_cast<void**>(handle); }

template <typename T>
T Struct(VkStructureType type) {
  T out{};
  out.sType = type;
  return out;
}

struct Work {
  std::vector<VkCommandBuffer> commands;
  std::vector<VkSemaphore> waits, signals;
  std::vector<uint64_t> wait_values, signal_values;
  VkFence fence = VK_NULL_HANDLE;
};

struct DeviceData;

// What the application has as a VkQueue: the first word is the loader's, as of every dispatchable object.
class Lane {
 public:
  Lane(DeviceData& device, void* key, bool is_second) : key_(key), device_(device), is_second_(is_second) {}
  void Start() {
    thread_ = std::thread([this] { Run(); });
  }
  void Give(Work work) {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    called_.notify_all();
  }
  void Drain() {
    std::unique_lock lock(mutex_);
    called_.wait(lock, [this] { return work_.empty() && !is_busy_; });
  }
  void End() {
    Drain();
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
      called_.notify_all();
    }
    thread_.join();
  }
  DeviceData& device() const { return device_; }
  bool is_second() const { return is_second_; }

 private:
  void Run();
  void Submit(const Work& work);

  void* key_;
  DeviceData& device_;
  bool is_second_;
  std::mt19937 random_;
  std::mutex mutex_;
  std::condition_variable called_;
  std::deque<Work> work_;
  bool is_busy_ = false, ends_ = false;
  std::thread thread_;
};

struct DeviceData {
  VkDevice handle = VK_NULL_HANDLE;
  PFN_vkGetDeviceProcAddr next = nullptr;
  uint32_t families = 0;  // of the driver
  VkQueue queue = VK_NULL_HANDLE;
  std::mutex queue_mutex;
  std::unique_ptr<Lane> lanes[2];

  template <typename F>
  F Find(const char* name) const {
    return reinterpret_cast<F>(next(handle, name));
  }
};

struct InstanceData {
  VkInstance handle = VK_NULL_HANDLE;
  PFN_vkGetInstanceProcAddr next = nullptr;
};
std::mutex mutex;
std::map<void*, InstanceData> instances;
std::map<void*, std::unique_ptr<DeviceData>> devices;

DeviceData& DeviceOf(void* handle) {
  const std::lock_guard lock(mutex);
  return *devices.at(KeyOf(handle));
}
InstanceData InstanceOf(void* handle) {
  const std::lock_guard lock(mutex);
  return instances.at(KeyOf(handle));
}

void Lane::Submit(const Work& work) {
  if (!work.waits.empty()) {
    auto wait = Struct<VkSemaphoreWaitInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO);
    wait.semaphoreCount = static_cast<uint32_t>(work.waits.size());
    wait.pSemaphores = work.waits.data();
    wait.pValues = work.wait_values.data();
    device_.Find<PFN_vkWaitSemaphores>("vkWaitSemaphores")(device_.handle, &wait, UINT64_MAX);
  }
  if (is_second_) std::this_thread::sleep_for(kLongestDelay * (random_() % 8) / 8);
  auto timeline = Struct<VkTimelineSemaphoreSubmitInfo>(VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
  timeline.signalSemaphoreValueCount = static_cast<uint32_t>(work.signal_values.size());
  timeline.pSignalSemaphoreValues = work.signal_values.data();
  auto info = Struct<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO);
  info.pNext = &timeline;
  info.commandBufferCount = static_cast<uint32_t>(work.commands.size());
  info.pCommandBuffers = work.commands.data();
  info.signalSemaphoreCount = static_cast<uint32_t>(work.signals.size());
  info.pSignalSemaphores = work.signals.data();
  const std::lock_guard lock(device_.queue_mutex);
  device_.Find<PFN_vkQueueSubmit>("vkQueueSubmit")(device_.queue, 1, &info, work.fence);
}

void Lane::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    called_.wait(lock, [this] { return ends_ || !work_.empty(); });
    if (work_.empty()) return;
    const Work work = std::move(work_.front());
    work_.pop_front();
    is_busy_ = true;
    lock.unlock();
    Submit(work);
    lock.lock();
    is_busy_ = false;
    called_.notify_all();
  }
}

VKAPI_ATTR void VKAPI_CALL GetQueueFamilies(VkPhysicalDevice physical, uint32_t* count, VkQueueFamilyProperties* out) {
  const InstanceData data = InstanceOf(physical);
  const auto next = reinterpret_cast<PFN_vkGetPhysicalDeviceQueueFamilyProperties>(
      data.next(data.handle, "vkGetPhysicalDeviceQueueFamilyProperties"));
  uint32_t families = 0;
  next(physical, &families, nullptr);
  if (out == nullptr) {
    *count = families + 1;
    return;
  }
  const bool is_whole = *count > families;
  next(physical, count, out);
  if (!is_whole) return;
  out[families] = out[0];
  out[families].queueFlags = VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT;
  out[families].queueCount = 1;
  *count = families + 1;
}

template <typename Info>
Info* LinkOf(const void* next, VkStructureType type) {
  auto* link = const_cast<Info*>(static_cast<const Info*>(next));
  while (link != nullptr && (link->sType != type || link->function != VK_LAYER_LINK_INFO))
    link = const_cast<Info*>(static_cast<const Info*>(link->pNext));
  return link;
}

VKAPI_ATTR VkResult VKAPI_CALL CreateInstance(const VkInstanceCreateInfo* info, const VkAllocationCallbacks* callbacks,
                                              VkInstance* out) {
  auto* link = LinkOf<VkLayerInstanceCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
  if (link == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
  const PFN_vkGetInstanceProcAddr next = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  const VkResult r = reinterpret_cast<PFN_vkCreateInstance>(next(nullptr, "vkCreateInstance"))(info, callbacks, out);
  if (r != VK_SUCCESS) return r;
  const std::lock_guard lock(mutex);
  instances[KeyOf(*out)] = {*out, next};
  return r;
}

VKAPI_ATTR VkResult VKAPI_CALL CreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo* given,
                                            const VkAllocationCallbacks* callbacks, VkDevice* out) {
  auto* link = LinkOf<VkLayerDeviceCreateInfo>(given->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
  if (link == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
  const PFN_vkGetInstanceProcAddr next_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  const PFN_vkGetDeviceProcAddr next = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  const InstanceData instance = InstanceOf(physical);
  uint32_t families = 0;
  GetQueueFamilies(physical, &families, nullptr);
  --families;
  VkDeviceCreateInfo info = *given;
  std::vector<VkDeviceQueueCreateInfo> queues;
  for (uint32_t q = 0; q < info.queueCreateInfoCount; ++q)
    if (info.pQueueCreateInfos[q].queueFamilyIndex < families) queues.push_back(info.pQueueCreateInfos[q]);
  info.queueCreateInfoCount = static_cast<uint32_t>(queues.size());
  info.pQueueCreateInfos = queues.data();
  const VkResult r = reinterpret_cast<PFN_vkCreateDevice>(next_instance(instance.handle, "vkCreateDevice"))(
      physical, &info, callbacks, out);
  if (r != VK_SUCCESS) return r;
  auto data = std::make_unique<DeviceData>();
  data->handle = *out;
  data->next = next;
  data->families = families;
  data->Find<PFN_vkGetDeviceQueue>("vkGetDeviceQueue")(*out, queues[0].queueFamilyIndex, 0, &data->queue);
  for (const bool is_second : {false, true}) {
    data->lanes[is_second] = std::make_unique<Lane>(*data, KeyOf(*out), is_second);
    data->lanes[is_second]->Start();
  }
  const std::lock_guard lock(mutex);
  devices[KeyOf(*out)] = std::move(data);
  return r;
}

VKAPI_ATTR void VKAPI_CALL DestroyDevice(VkDevice device, const VkAllocationCallbacks* callbacks) {
  if (device == VK_NULL_HANDLE) return;
  std::unique_ptr<DeviceData> data;
  {
    const std::lock_guard lock(mutex);
    auto it = devices.find(KeyOf(device));
    data = std::move(it->second);
    devices.erase(it);
  }
  for (auto& lane : data->lanes) lane->End();
  data->Find<PFN_vkDestroyDevice>("vkDestroyDevice")(device, callbacks);
}

VKAPI_ATTR void VKAPI_CALL GetDeviceQueue(VkDevice device, uint32_t family, uint32_t, VkQueue* out) {
  DeviceData& data = DeviceOf(device);
  *out = reinterpret_cast<VkQueue>(data.lanes[family >= data.families].get());
}

VKAPI_ATTR VkResult VKAPI_CALL QueueSubmit(VkQueue queue, uint32_t count, const VkSubmitInfo* infos, VkFence fence) {
  auto& lane = *reinterpret_cast<Lane*>(queue);
  if (lane.is_second()) beside_count += count;
  for (uint32_t n = 0; n < count; ++n) {
    const VkSubmitInfo& info = infos[n];
    const auto* timeline = static_cast<const VkTimelineSemaphoreSubmitInfo*>(info.pNext);
    Work work;
    work.commands.assign(info.pCommandBuffers, info.pCommandBuffers + info.commandBufferCount);
    work.waits.assign(info.pWaitSemaphores, info.pWaitSemaphores + info.waitSemaphoreCount);
    work.signals.assign(info.pSignalSemaphores, info.pSignalSemaphores + info.signalSemaphoreCount);
    if (timeline != nullptr) {
      work.wait_values.assign(timeline->pWaitSemaphoreValues,
                              timeline->pWaitSemaphoreValues + timeline->waitSemaphoreValueCount);
      work.signal_values.assign(timeline->pSignalSemaphoreValues,
                                timeline->pSignalSemaphoreValues + timeline->signalSemaphoreValueCount);
    }
    if (n + 1 == count) work.fence = fence;
    lane.Give(std::move(work));
  }
  return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL QueueWaitIdle(VkQueue queue) {
  auto& lane = *reinterpret_cast<Lane*>(queue);
  lane.Drain();
  const std::lock_guard lock(lane.device().queue_mutex);
  return lane.device().Find<PFN_vkQueueWaitIdle>("vkQueueWaitIdle")(lane.device().queue);
}

VKAPI_ATTR VkResult VKAPI_CALL DeviceWaitIdle(VkDevice device) {
  DeviceData& data = DeviceOf(device);
  for (auto& lane : data.lanes) lane->Drain();
  const std::lock_guard lock(data.queue_mutex);
  return data.Find<PFN_vkDeviceWaitIdle>("vkDeviceWaitIdle")(device);
}

// Of the family that the driver does not know, as of its own.
VKAPI_ATTR VkResult VKAPI_CALL CreateCommandPool(VkDevice device, const VkCommandPoolCreateInfo* given,
                                                 const VkAllocationCallbacks* callbacks, VkCommandPool* out) {
  const DeviceData& data = DeviceOf(device);
  VkCommandPoolCreateInfo info = *given;
  if (info.queueFamilyIndex >= data.families) info.queueFamilyIndex = 0;
  return data.Find<PFN_vkCreateCommandPool>("vkCreateCommandPool")(device, &info, callbacks, out);
}

VKAPI_ATTR VkResult VKAPI_CALL CreateBuffer(VkDevice device, const VkBufferCreateInfo* given,
                                            const VkAllocationCallbacks* callbacks, VkBuffer* out) {
  VkBufferCreateInfo info = *given;
  info.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
  info.queueFamilyIndexCount = 0;
  return DeviceOf(device).Find<PFN_vkCreateBuffer>("vkCreateBuffer")(device, &info, callbacks, out);
}

template <typename F>
PFN_vkVoidFunction Erased(F* function) {
  return reinterpret_cast<PFN_vkVoidFunction>(function);
}

}  // namespace

KRAFLA_EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL krafla_two_queues_GetDeviceProcAddr(VkDevice device,
                                                                                           const char* name) {
  const auto is = [&](const char* wanted) { return std::strcmp(name, wanted) == 0; };
  if (is("vkGetDeviceProcAddr")) return Erased(&krafla_two_queues_GetDeviceProcAddr);
  if (is("vkDestroyDevice")) return Erased(&DestroyDevice);
  if (is("vkGetDeviceQueue")) return Erased(&GetDeviceQueue);
  if (is("vkQueueSubmit")) return Erased(&QueueSubmit);
  if (is("vkQueueWaitIdle")) return Erased(&QueueWaitIdle);
  if (is("vkDeviceWaitIdle")) return Erased(&DeviceWaitIdle);
  if (is("vkCreateCommandPool")) return Erased(&CreateCommandPool);
  if (is("vkCreateBuffer")) return Erased(&CreateBuffer);
  return DeviceOf(device).next(device, name);
}

KRAFLA_EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL krafla_two_queues_GetInstanceProcAddr(VkInstance instance,
                                                                                             const char* name) {
  const auto is = [&](const char* wanted) { return std::strcmp(name, wanted) == 0; };
  if (is("vkGetInstanceProcAddr")) return Erased(&krafla_two_queues_GetInstanceProcAddr);
  if (is("vkGetDeviceProcAddr")) return Erased(&krafla_two_queues_GetDeviceProcAddr);
  if (is("vkCreateInstance")) return Erased(&CreateInstance);
  if (is("vkCreateDevice")) return Erased(&CreateDevice);
  if (is("vkGetPhysicalDeviceQueueFamilyProperties")) return Erased(&GetQueueFamilies);
  if (instance == VK_NULL_HANDLE) return nullptr;
  const InstanceData data = InstanceOf(instance);
  return data.next(instance, name);
}

KRAFLA_EXPORT VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface* interface) {
  if (interface->loaderLayerInterfaceVersion > 2) interface->loaderLayerInterfaceVersion = 2;
  interface->pfnGetInstanceProcAddr = &krafla_two_queues_GetInstanceProcAddr;
  interface->pfnGetDeviceProcAddr = &krafla_two_queues_GetDeviceProcAddr;
  interface->pfnGetPhysicalDeviceProcAddr = nullptr;
  return VK_SUCCESS;
}

KRAFLA_EXPORT int64_t krafla_two_queues_submissions() { return beside_count; }
