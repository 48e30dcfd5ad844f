// SPDX-License-Identifier: Apache-2.0
// Copies between the host and memory that it cannot map (or that is slow to read), through a small ring of staging
// buffers: while the device copies one chunk, the host fills or empties the next.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>

#include "krafla/status.h"
#include "vk_runtime/device.h"

namespace krafla::vk {

class Transfer {
 public:
  explicit Transfer(Device& device) : device_(device) {}
  ~Transfer();

  Result<> Upload(Buffer& to, uint64_t offset, std::span<const std::byte> from);
  Result<> Download(const Buffer& from, uint64_t offset, std::span<std::byte> to);

 private:
  static constexpr int kChunks = 4;
  struct Chunk {
    std::unique_ptr<Buffer> buffer;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    Event done;
  };
  using Ring = std::array<Chunk, kChunks>;

  // Makes the chunk ready to be used for a transfer of `bytes`: its last work done, its buffer large enough.
  Result<> Prepare(Chunk& chunk, MemoryKind kind, uint64_t bytes);
  Result<Event> Copy(Chunk& chunk, VkBuffer from, VkBuffer to, const VkBufferCopy& region, const KernelNames& name);

  Device& device_;
  std::mutex mutex_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  Ring up_, down_;
  unsigned next_up_ = 0;  // small transfers go round the ring too, so that none waits for the one before
  KernelNames upload_name_, download_name_;
};

}  // namespace krafla::vk
