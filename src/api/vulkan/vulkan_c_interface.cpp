// SPDX-License-Identifier: Apache-2.0
// krafla/krafla_vulkan.h.
#include "api/c/handles.h"
#include "krafla/krafla_vulkan.h"
#include "krafla/vulkan.h"

struct krafla_vulkan_recording {
  krafla::VulkanRecording recording;
};

namespace krafla::capi {
namespace {

Result<VulkanDevice> ToVulkanDevice(const krafla_vulkan_device* given) {
  KRAFLA_NOT_NULL(given);
  KRAFLA_ASSIGN(const krafla_vulkan_device device, Taken(given, "krafla_vulkan_device"));
  if (device.reserved != 0) return InvalidArgument("krafla_vulkan_device.reserved is not 0.");
  if ((device.lock_queue == nullptr) != (device.unlock_queue == nullptr))
    return InvalidArgument("krafla_vulkan_device has one of lock_queue and unlock_queue; it is both or neither.");
  VulkanDevice out;
  out.instance = device.instance;
  out.physical_device = device.physical_device;
  out.device = device.device;
  out.get_instance_proc_addr = device.get_instance_proc_addr;
  if (device.api_version != 0) out.api_version = device.api_version;
  out.queue_family = device.queue_family;
  out.queue_index = device.queue_index;
  out.queue = device.queue;
  if (device.lock_queue != nullptr) {
    out.lock_queue = [call = device.lock_queue, user = device.lock_user] { call(user); };
    out.unlock_queue = [call = device.unlock_queue, user = device.lock_user] { call(user); };
  }
  out.features = device.features;
  if (device.extensions == nullptr && device.extension_count > 0)
    return InvalidArgument("krafla_vulkan_device.extensions is NULL, and its count {}.", device.extension_count);
  for (std::size_t e = 0; e < device.extension_count; ++e) {
    if (device.extensions[e] == nullptr) return InvalidArgument("krafla_vulkan_device.extensions[{}] is NULL.", e);
    out.extensions.emplace_back(device.extensions[e]);
  }
  return out;
}

Result<std::vector<Buffer>> ToBuffers(const krafla_buffer* const* given, std::size_t count, std::string_view what) {
  if (count > 0 && given == nullptr) return NullPointer(what);
  std::vector<Buffer> out;
  for (std::size_t i = 0; i < count; ++i) {
    if (given[i] == nullptr) return InvalidArgument("{}[{}] is a null pointer.", what, i);
    out.push_back(given[i]->buffer);
  }
  return out;
}

Result<std::vector<VulkanSemaphore>> ToSemaphores(const krafla_vulkan_semaphore* given, std::size_t count,
                                                  std::string_view what) {
  if (count > 0 && given == nullptr) return NullPointer(what);
  std::vector<VulkanSemaphore> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back({given[i].semaphore, given[i].value});
  return out;
}

}  // namespace
}  // namespace krafla::capi

using namespace krafla;        // NOLINT: C has no namespaces
using namespace krafla::capi;  // NOLINT

krafla_status* krafla_vulkan_wrap(const krafla_vulkan_device* device, const krafla_client_options* options,
                                  krafla_client** client) {
  return Guarded([&]() -> Result<> {
    KRAFLA_NOT_NULL(client);
    KRAFLA_ASSIGN(const VulkanDevice mine, ToVulkanDevice(device));
    KRAFLA_ASSIGN(const ClientOptions taken, ToClientOptions(options));
    KRAFLA_ASSIGN(LocalClient made, WrapVulkanDevice(mine, taken));
    *client = new krafla_client{std::move(made)};
    return {};
  });
}

krafla_status* krafla_vulkan_import(const krafla_client* client, int32_t type, const int64_t* dims, size_t rank,
                                    const krafla_vulkan_range* range, void (*release)(void* user), void* user,
                                    krafla_buffer** buffer) {
  std::function<void()> released;
  if (release != nullptr) released = [release, user] { release(user); };
  bool is_handed_over = false;
  krafla_status* status = Guarded([&]() -> Result<> {
    KRAFLA_NOT_NULL(client);
    KRAFLA_NOT_NULL(range);
    KRAFLA_NOT_NULL(buffer);
    KRAFLA_ASSIGN(const Shape shape, ToShape(type, dims, rank));
    is_handed_over = true;
    KRAFLA_ASSIGN(Buffer made, ImportVulkanBuffer(client->client, shape, {range->buffer, range->offset, range->size},
                                                  std::move(released)));
    *buffer = new krafla_buffer{std::move(made)};
    return {};
  });
  if (!is_handed_over && release != nullptr) release(user);
  return status;
}

krafla_status* krafla_vulkan_run(krafla_session* session, const krafla_buffer* const* inputs, size_t input_count,
                                 const krafla_buffer* const* outputs, size_t output_count,
                                 const krafla_vulkan_semaphore* waits, size_t wait_count,
                                 const krafla_vulkan_semaphore* signals, size_t signal_count,
                                 const krafla_run_options* options) {
  return Guarded([&]() -> Result<> {
    KRAFLA_NOT_NULL(session);
    KRAFLA_ASSIGN(const RunOptions taken, ToRunOptions(options));
    KRAFLA_ASSIGN(const std::vector<Buffer> from, ToBuffers(inputs, input_count, "inputs"));
    KRAFLA_ASSIGN(const std::vector<Buffer> to, ToBuffers(outputs, output_count, "outputs"));
    KRAFLA_ASSIGN(const std::vector<VulkanSemaphore> first, ToSemaphores(waits, wait_count, "waits"));
    KRAFLA_ASSIGN(const std::vector<VulkanSemaphore> last, ToSemaphores(signals, signal_count, "signals"));
    return RunOnVulkan(session->session, from, to, first, last, taken);
  });
}

krafla_status* krafla_vulkan_recording_create(const krafla_session* session, const krafla_buffer* const* inputs,
                                              size_t input_count, const krafla_buffer* const* outputs,
                                              size_t output_count, krafla_vulkan_recording** recording) {
  return Guarded([&]() -> Result<> {
    KRAFLA_NOT_NULL(session);
    KRAFLA_NOT_NULL(recording);
    KRAFLA_ASSIGN(const std::vector<Buffer> from, ToBuffers(inputs, input_count, "inputs"));
    KRAFLA_ASSIGN(const std::vector<Buffer> to, ToBuffers(outputs, output_count, "outputs"));
    KRAFLA_ASSIGN(VulkanRecording made, VulkanRecording::Create(session->session, from, to));
    *recording = new krafla_vulkan_recording{std::move(made)};
    return {};
  });
}
krafla_status* krafla_vulkan_record(const krafla_vulkan_recording* recording, VkCommandBuffer commands) {
  return Guarded([&]() -> Result<> {
    KRAFLA_NOT_NULL(recording);
    KRAFLA_NOT_NULL(commands);
    return recording->recording.Record(commands);
  });
}
void krafla_vulkan_recording_free(krafla_vulkan_recording* recording) { delete recording; }
