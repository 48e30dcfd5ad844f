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

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "krafla/export.h"
#include "krafla/local_client.h"
#include "krafla/run_options.h"
#include "krafla/session.h"
#include "krafla/shape.h"

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

// ---- What follows takes clients of WrapVulkanDevice, and sessions and buffers of theirs.

// Of a VkBuffer of the application's, bound to memory and made with the usages STORAGE_BUFFER, TRANSFER_SRC and
// TRANSFER_DST, and SHADER_DEVICE_ADDRESS where the device has bufferDeviceAddress enabled.
struct VulkanRange {
  VkBuffer buffer = VK_NULL_HANDLE;
  uint64_t offset = 0;  // bytes; a multiple of 16 and of minStorageBufferOffsetAlignment
  // Bytes that krafla may touch: the array's, rounded up to a multiple of 16. What it writes behind the array means
  // nothing.
  uint64_t size = 0;
};

// A dense, row-major array there, without a copy. The VkBuffer outlives it; `release` is called, by any thread, once
// krafla has let go of it, which is after the last use that krafla has submitted. Ranges that overlap may be inputs
// together, but no output may overlap anything else. krafla's own reads and writes of it come in the order of the
// queue; those of the application it orders by barriers, semaphores or waits of its own.
Result<Buffer> ImportVulkanBuffer(const LocalClient& client, const Shape& shape, const VulkanRange& range,
                                  std::function<void()> release = {});

struct VulkanSemaphore {
  VkSemaphore semaphore = VK_NULL_HANDLE;
  uint64_t value = 0;  // of a timeline semaphore; a binary one has none
};

// Runs on buffers into buffers, one an input and an output, submitted by krafla to the client's queue. The run begins
// once all of `waits` are signalled; `signals` are signalled when it is done, and also where it fails on the way, so
// that nobody waits for ever. Returns before the device is done, where the host has no part in the program. The buffers
// live until then. An output that takes an input's place (input_output_alias) may be the same buffer where the program
// updates it in place, as a cache; INVALID_ARGUMENT tells where it does not.
Result<> RunOnVulkan(Session& session, std::span<const Buffer> inputs, std::span<const Buffer> outputs,
                     std::span<const VulkanSemaphore> waits = {}, std::span<const VulkanSemaphore> signals = {},
                     const RunOptions& options = {});

// A run between buffers that do not change, for command buffers of the application's. It keeps its buffers, its session
// may go before it; what was recorded is complete, or never submitted, when it goes.
//
// Threads: any thread may record at any time, each into a command buffer of its own.
class VulkanRecording {
 public:
  // UNIMPLEMENTED for programs of which the host runs or decides a part: steps on the CPU, loops and branches that
  // depend on values. BuildReport::placement says whether there are steps on the CPU.
  static Result<VulkanRecording> Create(const Session& session, std::span<const Buffer> inputs,
                                        std::span<const Buffer> outputs);
  VulkanRecording(VulkanRecording&&) noexcept;
  VulkanRecording& operator=(VulkanRecording&&) noexcept;
  ~VulkanRecording();

  // Appends the run to a command buffer in the recording state, outside of render passes, to be submitted to the
  // client's queue: any number of times, in any number of command buffers. Allocates nothing of its own.
  //
  // Begins with a barrier from compute shaders and transfers to compute shaders and transfers, and ends with one that
  // adds the host: writes of the application by those stages are seen by the run, and the run's by those that follow.
  // Other stages need barriers of the application's. Binds a compute pipeline, descriptor set 0 and push constants.
  Result<> Record(VkCommandBuffer commands) const;

 private:
  friend class VulkanInterop;
  struct Impl;
  explicit VulkanRecording(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace krafla
KRAFLA_EXPORT_END
