// SPDX-License-Identifier: Apache-2.0
// krafla/vulkan.h.
#include <algorithm>
#include <utility>

#include "api/session/session_state.h"
#include "api/vulkan/vulkan_client.h"
#include "api/vulkan/vulkan_recording.h"
#include "base/checked_math.h"
#include "base/without_exceptions.h"

namespace krafla {

Result<LocalClient> WrapVulkanDevice(const VulkanDevice& device, const ClientOptions& options) {
  return LocalClient::Impl::Create(options, [&] { return CreateVulkanClient(device, options); });
}

struct VulkanRecording::Impl {
  std::shared_ptr<Executable> executable;  // outlives the recording
  VulkanExecutable* vulkan = nullptr;
  std::unique_ptr<VulkanExecutable::Recording> recording;
};

// What the functions of the header need of sessions, buffers and clients.
class VulkanInterop {
 public:
  static Result<Buffer> Import(const LocalClient& client, const Shape& shape, const VulkanRange& range,
                               std::shared_ptr<const void> owner) {
    if (range.buffer == VK_NULL_HANDLE) return InvalidArgument("VulkanRange::buffer is null.");
    if (!shape.IsArray() || shape.IsDynamic())
      return InvalidArgument("A buffer holds an array of a known size, not {}.", shape.ToString(false));
    KRAFLA_ASSIGN(std::shared_ptr<vk::Device> device, AppDevice(*client.impl_->client));
    const DeviceProfile& profile = device->profile();
    const auto alignment = std::max<uint64_t>(16, profile.limits.min_storage_buffer_offset_alignment);
    if (range.offset % alignment != 0)
      return InvalidArgument("VulkanRange::offset is {}; on {} it is a multiple of {}.", range.offset, profile.name,
                             alignment);
    const auto needs = static_cast<uint64_t>(RoundUp(std::max<int64_t>(shape.byte_size(), 1), 16));
    if (range.size < needs)
      return InvalidArgument("VulkanRange::size is {}; {} takes {}, a multiple of 16.", range.size,
                             shape.ToString(false), needs);
    if (range.offset > UINT64_MAX - range.size)
      return InvalidArgument("VulkanRange has {} bytes from byte {}, which is nowhere.", range.size, range.offset);
    Shape dense = shape;
    dense.ClearLayout();
    KRAFLA_ASSIGN(std::shared_ptr<VulkanBuffer> made,
                  VulkanBuffer::Borrowed(*device, dense, range.buffer, range.offset, range.size, std::move(owner)));
    return Buffer(Buffer::Impl::Make(client.impl_->client->device(), std::move(made), MemoryBudget::Claim()));
  }

  static Result<> Run(Session& session, std::span<const Buffer> inputs, std::span<const Buffer> outputs,
                      std::span<const VulkanSemaphore> waits, std::span<const VulkanSemaphore> signals,
                      const RunOptions& options) {
    KRAFLA_ASSIGN(VulkanExecutable * executable, ExecutableOf(session));
    KRAFLA_ASSIGN(const VulkanExecutable::Arrays arrays, ArraysOf(session, inputs, outputs));
    KRAFLA_ASSIGN(const auto first, SemaphoresOf(waits, *session.impl_->client));
    KRAFLA_ASSIGN(const auto last, SemaphoresOf(signals, *session.impl_->client));
    return executable->RunBetween(arrays, first, last, {options.deadline, options.stop});
  }

  static Result<VulkanRecording> Record(const Session& session, std::span<const Buffer> inputs,
                                        std::span<const Buffer> outputs) {
    KRAFLA_ASSIGN(VulkanExecutable * executable, ExecutableOf(session));
    KRAFLA_ASSIGN(VulkanExecutable::Arrays arrays, ArraysOf(session, inputs, outputs));
    auto impl = std::make_unique<VulkanRecording::Impl>();
    impl->executable = session.impl_->executable;
    impl->vulkan = executable;
    KRAFLA_ASSIGN(impl->recording, executable->Bind(std::move(arrays)));
    return VulkanRecording(std::move(impl));
  }

 private:
  static Result<VulkanExecutable*> ExecutableOf(const Session& session) {
    KRAFLA_TRY(session.impl_->CheckProcess());
    KRAFLA_TRY(AppDevice(*session.impl_->client));
    auto* out = dynamic_cast<VulkanExecutable*>(session.impl_->executable.get());
    if (out == nullptr)
      return Unimplemented(
          "The program has dimensions whose sizes are known when it runs; it needs buffers of its own.");
    return out;
  }

  static Result<std::vector<std::shared_ptr<VulkanBuffer>>> OnLeaves(const SessionTensors& tensors,
                                                                     std::span<const Buffer> given,
                                                                     std::string_view what) {
    if (tensors.HasTokens()) return Unimplemented("The program has tokens among its {}s.", what);
    if (given.size() != tensors.infos.size())
      return InvalidArgument("The program has {} {}s, {} were given.", tensors.infos.size(), what, given.size());
    std::vector<std::shared_ptr<VulkanBuffer>> out;
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (given[i].impl_ == nullptr) return InvalidArgument("The {} {} is a buffer that was moved from.", what, i);
      out.push_back(std::dynamic_pointer_cast<VulkanBuffer>(given[i].impl_->buffer));
      if (out.back() == nullptr) return InvalidArgument("The {} {} is not a buffer of the session's client.", what, i);
    }
    return out;
  }

  static Result<VulkanExecutable::Arrays> ArraysOf(const Session& session, std::span<const Buffer> inputs,
                                                   std::span<const Buffer> outputs) {
    VulkanExecutable::Arrays out;
    KRAFLA_ASSIGN(out.arguments, OnLeaves(session.impl_->inputs, inputs, "input"));
    KRAFLA_ASSIGN(out.results, OnLeaves(session.impl_->outputs, outputs, "output"));
    return out;
  }

  static Result<std::vector<vk::SemaphoreValue>> SemaphoresOf(std::span<const VulkanSemaphore> given,
                                                              const Client& client) {
    const bool has_timelines = client.device().profile && client.device().profile->features.timeline_semaphore;
    std::vector<vk::SemaphoreValue> out;
    for (const VulkanSemaphore& s : given) {
      if (s.semaphore == VK_NULL_HANDLE) return InvalidArgument("VulkanSemaphore::semaphore is null.");
      if (s.value != 0 && !has_timelines)
        return InvalidArgument("VulkanSemaphore::value is {}; the device was made without timelineSemaphore.", s.value);
      out.push_back({s.semaphore, s.value});
    }
    return out;
  }
};

Result<Buffer> ImportVulkanBuffer(const LocalClient& client, const Shape& shape, const VulkanRange& range,
                                  std::function<void()> release) {
  return WithoutExceptions([&]() -> Result<Buffer> {
    return VulkanInterop::Import(client, shape, range, OwnerThatCalls(std::move(release)));
  });
}

Result<> RunOnVulkan(Session& session, std::span<const Buffer> inputs, std::span<const Buffer> outputs,
                     std::span<const VulkanSemaphore> waits, std::span<const VulkanSemaphore> signals,
                     const RunOptions& options) {
  return WithoutExceptions([&] { return VulkanInterop::Run(session, inputs, outputs, waits, signals, options); });
}

VulkanRecording::VulkanRecording(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
VulkanRecording::VulkanRecording(VulkanRecording&&) noexcept = default;
VulkanRecording& VulkanRecording::operator=(VulkanRecording&&) noexcept = default;
VulkanRecording::~VulkanRecording() = default;

Result<VulkanRecording> VulkanRecording::Create(const Session& session, std::span<const Buffer> inputs,
                                                std::span<const Buffer> outputs) {
  return WithoutExceptions([&] { return VulkanInterop::Record(session, inputs, outputs); });
}

Result<> VulkanRecording::Record(VkCommandBuffer commands) const {
  if (commands == VK_NULL_HANDLE) return InvalidArgument("The command buffer is null.");
  return impl_->vulkan->RecordInto(*impl_->recording, commands);
}

}  // namespace krafla
