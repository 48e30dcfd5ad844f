// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/transfer.h"

#include <algorithm>
#include <cstring>

#include "vk_runtime/vma.h"

namespace krafla::vk {
namespace {
// Small copies take a small buffer: a chunk grows in powers of two up to its share of the ring.
constexpr uint64_t kSmallestChunk = 64 << 10;
}  // namespace

Transfer::~Transfer() {
  // The device has settled already; buffers go with the rings.
  if (pool_ != VK_NULL_HANDLE) device_.vk().vkDestroyCommandPool(device_.handle(), pool_, nullptr);
}

Result<> Transfer::Prepare(Chunk& chunk, MemoryKind kind, uint64_t bytes) {
  const VolkDeviceTable& vk = device_.vk();
  if (pool_ == VK_NULL_HANDLE) {
    upload_name_ = std::make_shared<const std::vector<std::string>>(1, "upload");
    download_name_ = std::make_shared<const std::vector<std::string>>(1, "download");
    auto info = Struct<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
    info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT | VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
    info.queueFamilyIndex = device_.queue_family();
    VkResult r = vk.vkCreateCommandPool(device_.handle(), &info, nullptr, &pool_);
    if (r != VK_SUCCESS) {
      pool_ = VK_NULL_HANDLE;
      return device_.Fail(r, "create a command pool for transfers");
    }
  }
  KRAFLA_TRY(device_.Wait(chunk.done));
  if (chunk.commands == VK_NULL_HANDLE) {
    auto info = Struct<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
    info.commandPool = pool_;
    info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    info.commandBufferCount = 1;
    VkResult r = vk.vkAllocateCommandBuffers(device_.handle(), &info, &chunk.commands);
    if (r != VK_SUCCESS) {
      chunk.commands = VK_NULL_HANDLE;
      return device_.Fail(r, "allocate a command buffer for transfers");
    }
  }
  uint64_t share = std::max(device_.options().staging_bytes / kChunks, kSmallestChunk);
  uint64_t wanted = kSmallestChunk;
  while (wanted < bytes && wanted < share) wanted *= 2;
  wanted = std::min(wanted, share);
  if (chunk.buffer == nullptr || chunk.buffer->size() < wanted) {
    chunk.buffer.reset();
    KRAFLA_ASSIGN(chunk.buffer, device_.AllocateOwned(wanted, kind, "a staging buffer"));
  }
  return {};
}

Result<Event> Transfer::Copy(Chunk& chunk, VkBuffer from, VkBuffer to, const VkBufferCopy& region,
                             const KernelNames& name) {
  const VolkDeviceTable& vk = device_.vk();
  VkCommandBuffer commands = chunk.commands;
  auto begin = Struct<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
  begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  VkResult r = vk.vkBeginCommandBuffer(commands, &begin);
  if (r != VK_SUCCESS) return device_.Fail(r, "begin a transfer");
  auto barrier = Struct<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
  barrier.srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  constexpr VkPipelineStageFlags kWorkAndCopies = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
  vk.vkCmdPipelineBarrier(commands, kWorkAndCopies, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &barrier, 0, nullptr, 0,
                          nullptr);
  vk.vkCmdCopyBuffer(commands, from, to, 1, &region);
  barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  vk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0,
                          nullptr, 0, nullptr);
  r = vk.vkEndCommandBuffer(commands);
  if (r != VK_SUCCESS) {
    // Commands that could not be ended cannot be begun again.
    vk.vkFreeCommandBuffers(device_.handle(), pool_, 1, &chunk.commands);
    chunk.commands = VK_NULL_HANDLE;
    return device_.Fail(r, "record a transfer");
  }
  KRAFLA_ASSIGN(chunk.done, device_.Submit(commands, name));
  return chunk.done;
}

Result<> Transfer::Upload(Buffer& to, uint64_t offset, std::span<const std::byte> from) {
  std::lock_guard lock(mutex_);
  while (!from.empty()) {
    Chunk& chunk = up_[next_up_++ % kChunks];
    KRAFLA_TRY(Prepare(chunk, MemoryKind::kUpload, from.size()));
    std::size_t bytes = std::min<std::size_t>(from.size(), chunk.buffer->size());
    std::memcpy(chunk.buffer->host(), from.data(), bytes);
    VkResult r = vmaFlushAllocation(device_.allocator_, chunk.buffer->allocation_, 0, VK_WHOLE_SIZE);
    if (r != VK_SUCCESS) return device_.Fail(r, "flush a staging buffer");
    KRAFLA_ASSIGN(Event done, Copy(chunk, chunk.buffer->handle(), to.handle(), {0, offset, bytes}, upload_name_));
    to.Use(done.number);
    from = from.subspan(bytes);
    offset += bytes;
  }
  return {};
}

Result<> Transfer::Download(const Buffer& from, uint64_t offset, std::span<std::byte> to) {
  std::lock_guard lock(mutex_);
  struct Flight {
    std::size_t at = 0, bytes = 0;
  };
  std::array<Flight, kChunks> flights;
  uint64_t asked = 0, received = 0;  // in chunks
  std::size_t at = 0;
  while (at < to.size() || received < asked) {
    if (at < to.size() && asked - received < kChunks) {
      Chunk& chunk = down_[asked % kChunks];
      KRAFLA_TRY(Prepare(chunk, MemoryKind::kReadback, to.size() - at));
      std::size_t bytes = std::min<std::size_t>(to.size() - at, chunk.buffer->size());
      KRAFLA_ASSIGN(Event done,
                    Copy(chunk, from.handle(), chunk.buffer->handle(), {offset + at, 0, bytes}, download_name_));
      from.Use(done.number);
      flights[asked++ % kChunks] = {at, bytes};
      at += bytes;
      continue;
    }
    Chunk& chunk = down_[received % kChunks];
    const Flight& flight = flights[received++ % kChunks];
    KRAFLA_TRY(device_.Wait(chunk.done));
    VkResult r = vmaInvalidateAllocation(device_.allocator_, chunk.buffer->allocation_, 0, VK_WHOLE_SIZE);
    if (r != VK_SUCCESS) return device_.Fail(r, "read a staging buffer");
    std::memcpy(to.data() + flight.at, chunk.buffer->host(), flight.bytes);
  }
  return {};
}

}  // namespace krafla::vk
