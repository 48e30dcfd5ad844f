// SPDX-License-Identifier: Apache-2.0
#include "api/vulkan/vulkan_buffer.h"

#include <algorithm>

#include "base/system.h"

namespace krafla {
namespace {

constexpr uint64_t kImportFrom = 1 << 20;  // bytes of an array that is worth an import

}  // namespace

std::optional<HostPages> ImportPages(vk::Device& device, const HostView& view) {
  // Only where shaders run in the host's memory anyway: elsewhere each read would cross the bus.
  const DeviceProfile& profile = device.profile();
  const std::span<const std::byte> bytes = view.bytes;
  const uint64_t alignment = profile.limits.host_import_alignment;
  if (!profile.is_cpu || !profile.features.external_memory_host || alignment == 0 || bytes.size() < kImportFrom)
    return std::nullopt;
  const uint64_t begin = reinterpret_cast<uintptr_t>(bytes.data()), first = begin / alignment * alignment;
  const uint64_t last = (begin + bytes.size() + alignment - 1) / alignment * alignment;
  // A larger alignment than the system's pages could reach into some that are not there.
  if (alignment > os::PageBytes()) return std::nullopt;
  if ((begin - first) % std::max<uint64_t>(16, profile.limits.min_storage_buffer_offset_alignment) != 0)
    return std::nullopt;
  auto made = device.ImportHost(reinterpret_cast<void*>(first), last - first, view.owner);
  if (!made) return std::nullopt;
  return HostPages{std::move(*made), begin - first};
}

uint64_t VulkanBuffer::BytesOf(const Shape& shape) {
  return std::max<uint64_t>(static_cast<uint64_t>(shape.byte_size()), 16);
}

Result<std::shared_ptr<VulkanBuffer>> VulkanBuffer::CopyOf(vk::Device& device, const Shape& shape,
                                                           std::span<const std::byte> bytes) {
  KRAFLA_ASSIGN(std::shared_ptr<vk::Buffer> memory,
                device.AllocateRecycled(BytesOf(shape), /*idle=*/true, "an argument"));
  if (!bytes.empty()) KRAFLA_TRY(device.Upload(*memory, 0, bytes));
  return std::make_shared<VulkanBuffer>(shape, std::move(memory));
}

Result<std::shared_ptr<VulkanBuffer>> VulkanBuffer::Of(vk::Device& device, const Shape& shape, const HostView& view) {
  std::optional<HostPages> pages = ImportPages(device, view);
  if (!pages) return CopyOf(device, shape, view.bytes);
  auto out = std::make_shared<VulkanBuffer>(shape, std::move(pages->memory));
  out->offset_ = pages->offset;
  out->host_ = view;
  return out;
}

Result<std::shared_ptr<VulkanBuffer>> VulkanBuffer::Of(vk::Device& device,
                                                       const std::shared_ptr<const Literal>& literal) {
  KRAFLA_ASSIGN(std::shared_ptr<VulkanBuffer> out, Of(device, literal->shape(), {literal->bytes(), literal}));
  if (out->host_.owner != nullptr) out->literal_ = literal;
  return out;
}

Result<std::shared_ptr<VulkanBuffer>> VulkanBuffer::Borrowed(vk::Device& device, const Shape& shape, VkBuffer buffer,
                                                             uint64_t offset, uint64_t size,
                                                             std::shared_ptr<const void> owner) {
  KRAFLA_ASSIGN(std::shared_ptr<vk::Buffer> memory, device.Borrow(buffer, offset + size, std::move(owner)));
  auto out = std::make_shared<VulkanBuffer>(shape, std::move(memory));
  out->offset_ = offset;
  return out;
}

Result<> VulkanBuffer::CheckThere() const {
  if (memory_ == nullptr) return FailedPrecondition("The buffer was donated and no longer has an array.");
  return {};
}

Result<> VulkanBuffer::Wait() const {
  KRAFLA_TRY(CheckThere());
  return memory_->device().WaitFor(*memory_);
}

std::function<Result<>()> VulkanBuffer::Waiter() const {
  if (memory_ == nullptr) return nullptr;
  return [device = memory_->device().shared_from_this(), event = vk::Event{memory_->last_use()}] {
    return device->Wait(event);
  };
}

Result<std::shared_ptr<const Literal>> VulkanBuffer::ToLiteral() const {
  KRAFLA_TRY(Wait());
  if (literal_ != nullptr) return literal_;
  KRAFLA_ASSIGN(Literal out, Literal::CreateUninitialized(shape_));
  if (!out.bytes().empty()) KRAFLA_TRY(memory_->device().Download(*memory_, offset_, out.bytes()));
  return std::make_shared<const Literal>(std::move(out));
}

Result<HostView> VulkanBuffer::View() const {
  KRAFLA_TRY(Wait());
  if (host_.owner != nullptr) return host_;
  if (memory_->host() == nullptr || !memory_->host_cached()) return DeviceBuffer::View();
  KRAFLA_TRY(memory_->device().PrepareHostRead(*memory_));
  return HostView{{memory_->host() + offset_, static_cast<std::size_t>(shape_.byte_size())}, memory_};
}

Result<uint64_t> VulkanBuffer::Address() const {
  KRAFLA_TRY(CheckThere());
  if (memory_->address() == 0) return Unimplemented("The device does not give buffers addresses.");
  return memory_->address() + offset_;
}

void VulkanBuffer::Release() {
  memory_.reset();
  literal_.reset();
  host_ = {};
}

}  // namespace krafla
