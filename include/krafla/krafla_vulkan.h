/* SPDX-License-Identifier: Apache-2.0 */
/*
 * krafla for C inside an application's own Vulkan device: what krafla/vulkan.h is for C++, which says more of each.
 *
 *   krafla_vulkan_device mine = KRAFLA_INIT(krafla_vulkan_device);
 *   mine.instance = instance, mine.physical_device = physical, mine.device = device, ...
 *   krafla_status* error = krafla_vulkan_wrap(&mine, NULL, &client);
 *
 * Needs Vulkan's headers (Debian: libvulkan-dev), and a krafla that was built with Vulkan. Programs that take Vulkan
 * from a loader library such as volk include that first, or define VK_NO_PROTOTYPES. Errors, handles, threads and
 * versions are as krafla/krafla.h has them; krafla_vulkan_range and krafla_vulkan_semaphore never change.
 */
#ifndef KRAFLA_KRAFLA_VULKAN_H_
#define KRAFLA_KRAFLA_VULKAN_H_

#include <vulkan/vulkan_core.h>

#include "krafla/krafla.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What an application has made for itself. All handles outlive the client and all that is made with it; krafla destroys
 * none of them. */
typedef struct krafla_vulkan_device {
  size_t struct_size;
  VkInstance instance;
  VkPhysicalDevice physical_device;
  VkDevice device;
  PFN_vkGetInstanceProcAddr get_instance_proc_addr; /* where every other function comes from */
  uint32_t api_version;                             /* VkApplicationInfo::apiVersion; 0: 1.1 */
  uint32_t queue_family;
  uint32_t queue_index;
  uint32_t reserved; /* 0 */
  VkQueue queue;     /* with compute; VK_NULL_HANDLE: the one of queue_index */
  /* Called around each use of the queue, by any thread; both or neither. */
  void (*lock_queue)(void* user);
  void (*unlock_queue)(void* user);
  void* lock_user;
  /* What the device was made with; what is not said here counts as absent. Read before the call returns. */
  const VkPhysicalDeviceFeatures2* features; /* with their chain; NULL: none */
  const char* const* extensions;
  size_t extension_count;
} krafla_vulkan_device;

/* `options` may be NULL. Once the device is lost, everything on it is KRAFLA_ABORTED. */
KRAFLA_API krafla_status* krafla_vulkan_wrap(const krafla_vulkan_device* device, const krafla_client_options* options,
                                             krafla_client** client);

/* ---- What follows takes clients of krafla_vulkan_wrap, and sessions and buffers of theirs. ---- */

/* Of a VkBuffer of the application's, bound to memory and made with the usages STORAGE_BUFFER, TRANSFER_SRC and
 * TRANSFER_DST, and SHADER_DEVICE_ADDRESS where the device has bufferDeviceAddress enabled. */
typedef struct krafla_vulkan_range {
  VkBuffer buffer;
  uint64_t offset; /* bytes; a multiple of 16 and of minStorageBufferOffsetAlignment */
  uint64_t size;   /* bytes that krafla may touch: the array's, rounded up to a multiple of 16 */
} krafla_vulkan_range;

/* A dense, row-major array there, without a copy. `release` (may be NULL) is called once krafla has let go of it, by
 * any thread; also where the call fails. */
KRAFLA_API krafla_status* krafla_vulkan_import(const krafla_client* client, int32_t type, const int64_t* dims,
                                               size_t rank, const krafla_vulkan_range* range,
                                               void (*release)(void* user), void* user, krafla_buffer** buffer);

typedef struct krafla_vulkan_semaphore {
  VkSemaphore semaphore;
  uint64_t value; /* of a timeline semaphore; a binary one has none */
} krafla_vulkan_semaphore;

/* Runs on buffers into buffers, one an input and an output, on the client's queue: after all of `waits`; `signals` are
 * signalled when it is done, and also where it fails on the way. Returns before the device is done, where the host has
 * no part in the program. `options` may be NULL. */
KRAFLA_API krafla_status* krafla_vulkan_run(krafla_session* session, const krafla_buffer* const* inputs,
                                            size_t input_count, const krafla_buffer* const* outputs,
                                            size_t output_count, const krafla_vulkan_semaphore* waits,
                                            size_t wait_count, const krafla_vulkan_semaphore* signals,
                                            size_t signal_count, const krafla_run_options* options);

/* A run between buffers that do not change, for command buffers of the application's. It keeps its buffers, its session
 * may go before it; what was recorded is complete, or never submitted, when it is freed. */
typedef struct krafla_vulkan_recording krafla_vulkan_recording;

/* KRAFLA_UNIMPLEMENTED for programs of which the host runs or decides a part. */
KRAFLA_API krafla_status* krafla_vulkan_recording_create(const krafla_session* session,
                                                         const krafla_buffer* const* inputs, size_t input_count,
                                                         const krafla_buffer* const* outputs, size_t output_count,
                                                         krafla_vulkan_recording** recording);
/* Appends the run to a command buffer in the recording state, any number of times. Allocates nothing of its own. Its
 * barriers are between compute shaders and transfers, and the host at the end; it binds a compute pipeline, descriptor
 * set 0 and push constants. */
KRAFLA_API krafla_status* krafla_vulkan_record(const krafla_vulkan_recording* recording, VkCommandBuffer commands);
KRAFLA_API void krafla_vulkan_recording_free(krafla_vulkan_recording* recording);

#ifdef __cplusplus
}
#endif

#endif /* KRAFLA_KRAFLA_VULKAN_H_ */
