// SPDX-License-Identifier: Apache-2.0
// An array in a Vulkan device's memory, or in pages of the host that the device works in.
#pragma once

#include <memory>
#include <optional>

#include "api/device_buffer.h"
#include "vk_runtime/device.h"

namespace krafla {

// Pages of the host as a buffer that is only read, and where in it an array lies.
struct HostPages {
  std::shared_ptr<vk::Buffer> memory;
  uint64_t offset = 0;
};
// Those that hold the view's bytes, with whatever else is in the first and the last one; nothing where the device does
// not work in the host's memory, or not in these pages, and where they are too few to be worth it.
std::optional<HostPages> ImportPages(vk::Device& device, const HostView& view);

class VulkanBuffer final : public DeviceBuffer {
 public:
  // `memory` from the device's recycling pool.
  VulkanBuffer(Shape shape, std::shared_ptr<vk::Buffer> memory)
      : shape_(std::move(shape)), memory_(std::move(memory)) {}

  // Bytes of device memory that an array takes.
  static uint64_t BytesOf(const Shape& shape);
  static Result<std::shared_ptr<VulkanBuffer>> CopyOf(vk::Device& device, const Shape& shape,
                                                      std::span<const std::byte> bytes);
  // In the array's own pages where the device works in the host's memory and they suit it, else a copy.
  static Result<std::shared_ptr<VulkanBuffer>> Of(vk::Device& device, const Shape& shape, const HostView& view);
  static Result<std::shared_ptr<VulkanBuffer>> Of(vk::Device& device, const std::shared_ptr<const Literal>& literal);

  // In a part of somebody else's VkBuffer, which `owner` keeps.
  static Result<std::shared_ptr<VulkanBuffer>> Borrowed(vk::Device& device, const Shape& shape, VkBuffer buffer,
                                                        uint64_t offset, uint64_t size,
                                                        std::shared_ptr<const void> owner);

  const Shape& shape() const override { return shape_; }
  Result<> Wait() const override;
  // Of what has used the memory so far.
  std::function<Result<>()> Waiter() const override;
  Result<std::shared_ptr<const Literal>> ToLiteral() const override;
  Result<HostView> View() const override;
  Result<uint64_t> Address() const override;
  void Release() override;

  // Null once donated.
  const std::shared_ptr<vk::Buffer>& memory() const { return memory_; }
  uint64_t offset() const { return offset_; }
  // Whether a run that it is donated to may write to its memory: not where that is the host's or the application's, or
  // somebody reads it.
  bool IsOverwritable() const { return host_.owner == nullptr && !memory_->is_borrowed() && memory_.use_count() == 1; }
  // Whether a run may be told to write its result there.
  bool IsWritable() const { return memory_ != nullptr && host_.owner == nullptr; }

 private:
  Result<> CheckThere() const;

  Shape shape_;
  std::shared_ptr<vk::Buffer> memory_;
  uint64_t offset_ = 0;
  HostView host_;                           // the array, where `memory_` is pages of the host
  std::shared_ptr<const Literal> literal_;  // that it is, if it is one
};

}  // namespace krafla
