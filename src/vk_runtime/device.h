// SPDX-License-Identifier: Apache-2.0
// A logical device: one compute queue and perhaps a second one beside it, memory, transfers, and the memory of being
// lost.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/run_limit.h"
#include "device/device_profile.h"
#include "krafla/status.h"
#include "vk_runtime/buffer.h"
#include "vk_runtime/instance.h"
#include "vk_runtime/queue.h"

struct VmaAllocator_T;

namespace krafla::vk {

class BufferPool;
class PipelineStore;
class Transfer;

struct DeviceOptions {
  // Of every wait. A passed deadline is DEADLINE_EXCEEDED, not a lost device: the work goes on.
  std::chrono::milliseconds wait_limit = std::chrono::minutes(30);
  uint64_t staging_bytes = uint64_t{32} << 20;  // a direction, for devices whose memory the host cannot map
  // Where pipelines and self-test outcomes are kept. Unset: $KRAFLA_CACHE_DIR, else $XDG_CACHE_HOME/krafla, else
  // ~/.cache/krafla. Empty: nowhere.
  std::optional<std::string> cache_dir = {};
  unsigned pipeline_threads = 0;  // 0: as the CPU back end has (ThreadPool), at most 8
  // Sees the device functions before anything calls them: how tests make call N fail.
  std::function<void(VolkDeviceTable&)> patch_functions = {};
};

// For what must not be destroyed because the device may still use it, though every wait has failed: it lives, with its
// device, until the process ends.
void Abandon(std::shared_ptr<void> object);

// A submission; complete when all its commands are. Value 0 is always complete. The second queue counts for itself.
struct Event {
  uint64_t number = 0;
  bool beside = false;  // on the second queue
};

// How one logical device hands memory to another: as a file descriptor that any driver may import, or as one for the
// same device and driver alone.
enum class SharedBy : uint8_t { kDmaBuf, kOpaqueFd };

// What ran, for the report of a lost device: the launches of one program, in order.
using KernelNames = std::shared_ptr<const std::vector<std::string>>;

class Device : public std::enable_shared_from_this<Device> {
 public:
  // `profile` is the physical device's, perhaps WithDisabled: what it says is enabled.
  static Result<std::shared_ptr<Device>> Create(std::shared_ptr<Instance> instance, const PhysicalDevice& physical,
                                                const DeviceProfile& profile, DeviceOptions options = {});
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceProfile& profile() const { return profile_; }
  const DeviceOptions& options() const { return options_; }
  VkDevice handle() const { return handle_; }
  const VolkDeviceTable& vk() const { return functions_; }
  uint32_t queue_family() const { return families_[0]; }
  bool uses_addresses() const { return profile_.features.buffer_device_address; }

  // The error of a lost device, or nothing. After a loss only destroying calls reach the driver.
  Result<> Alive() const;
  // A VkResult as an error. A lost device is remembered, and reported with the last kernels.
  Failure Fail(VkResult result, std::string_view what);

  // Memory. Contents are undefined. RESOURCE_EXHAUSTED names the bytes wanted and what is free.
  Result<std::shared_ptr<Buffer>> Allocate(uint64_t size, MemoryKind kind, std::string_view what = "a buffer");
  // Whether buffers lie between pages that nobody may touch (base/guards.h), which shaders stop at, too.
  bool guards_buffers() const;
  // One of at least `size` bytes that has been used before, if there is one, and that is kept when it is dropped. What
  // was submitted earlier may still use it: what is submitted now comes after that. `idle`: nothing uses it, so that
  // the host may write to it at once.
  Result<std::shared_ptr<Buffer>> AllocateRecycled(uint64_t size, bool idle, std::string_view what = "a buffer");
  // The caller's pages as a buffer, without a copy: `data` and `size` must be multiples of
  // profile().limits.host_import_alignment, and outlive the buffer and its uses; `owner` does if it keeps them.
  // UNIMPLEMENTED without VK_EXT_external_memory_host.
  Result<std::shared_ptr<Buffer>> ImportHost(void* data, uint64_t size, std::shared_ptr<const void> owner = nullptr);
  // The first `size` bytes of somebody else's VkBuffer, which can be used as BufferUsage() says; it is not destroyed.
  // `owner` is let go of once the last use that this device knows of is complete.
  Result<std::shared_ptr<Buffer>> Borrow(VkBuffer handle, uint64_t size, std::shared_ptr<const void> owner);
  VkBufferUsageFlags BufferUsage() const;
  // Memory that other logical devices import too (external_memory.cpp); not mapped. UNIMPLEMENTED, with the reason,
  // where the device does not share memory so.
  Result<std::shared_ptr<Buffer>> AllocateShared(uint64_t size, SharedBy shared);
  // The memory of another device's buffer, from AllocateShared.
  Result<std::shared_ptr<Buffer>> ImportShared(const Buffer& from, SharedBy shared);
  // Physical devices of the linked group that this one is in; 1: it is alone.
  uint32_t LinkedDevices() const;
  // Waits for the buffer's last use, then copies.
  Result<> Upload(Buffer& to, uint64_t offset, std::span<const std::byte> from);
  Result<> Download(const Buffer& from, uint64_t offset, std::span<std::byte> to);
  // Before the host reads a buffer with host_cached() where it is; after WaitFor.
  Result<> PrepareHostRead(const Buffer& from);
  Result<uint32_t> DownloadWord(const Buffer& from, uint64_t offset);
  // Kept buffers count.
  uint64_t allocated_bytes() const { return allocated_.load(std::memory_order_relaxed); }
  uint64_t peak_allocated_bytes() const { return peak_.load(std::memory_order_relaxed); }

  // Work.
  Result<Event> Submit(VkCommandBuffer commands, const KernelNames& names);
  // The second queue, whose work runs beside the first one's: it begins once `after`, an event of the first, is
  // complete, and is not counted as a use of its buffers (Buffer::Use). Only where there is one.
  bool has_side_queue() const { return side_ != nullptr; }
  uint32_t side_family() const { return families_[1]; }
  Result<Event> SubmitBeside(VkCommandBuffer commands, Event after);
  // What is submitted to the first queue from here on begins once `beside` is complete. The event is complete then,
  // too.
  Result<Event> Follow(Event beside);
  // What is submitted from here on begins once `waits` are signalled.
  Result<> WaitForSemaphores(std::span<const SemaphoreValue> waits);
  // Signalled once all that was submitted so far is complete.
  Result<> SignalSemaphores(std::span<const SemaphoreValue> signals);
  // DEADLINE_EXCEEDED once the wait's own limit has passed, or what `limit` says; the work goes on.
  Result<> Wait(Event event, const RunLimit& limit = kUnlimited);
  Result<> WaitFor(const Buffer& buffer, const RunLimit& limit = kUnlimited) {
    return Wait({buffer.last_use()}, limit);
  }
  // The number of the last submission that is complete.
  Result<uint64_t> Completed();
  Result<bool> IsComplete(Event event);
  Event LastSubmitted() const { return {queue_->last_submitted()}; }
  Event LastBeside() const { return {side_ != nullptr ? side_->last_submitted() : 0, true}; }
  // For destructors: true if nothing numbered up to `event` can still run. Never reports, never waits past the limit.
  bool Settle(Event event) noexcept;

  PipelineStore& pipelines() { return *pipelines_; }

 private:
  friend class Buffer;
  friend class BufferPool;
  friend class Transfer;
  struct Retired {
    VkBuffer buffer;
    VmaAllocation_T* allocation;
    VkDeviceMemory imported;
    uint64_t last_use, bytes;
    std::shared_ptr<const void> pages;
    bool is_borrowed;
  };
  struct Recent {
    uint64_t number = 0;
    KernelNames names;
  };

  Device() = default;
  Result<> Init(std::shared_ptr<Instance> instance, const PhysicalDevice& physical, const DeviceProfile& profile,
                DeviceOptions options);
  Result<> CreateHandle(const PhysicalDevice& physical);
  Queue& QueueOf(Event event) const { return event.beside ? *side_ : *queue_; }
  bool HasSideQueue(const PhysicalDevice& physical) const;  // whether it is to have one
  // Buffers are both queues', of whichever families.
  void ShareBetweenQueues(VkBufferCreateInfo& info) const;
  Result<> InitMemory(const PhysicalDevice& physical);
  // Tries again without the buffers that were kept, where there is not enough memory.
  Result<std::unique_ptr<Buffer>> AllocateOwned(uint64_t size, MemoryKind kind, std::string_view what);
  // Pages that are somebody else's, whole ones.
  struct ImportedPages {
    void* data = nullptr;
    uint64_t size = 0;
    std::shared_ptr<const void> owner;
  };
  // A buffer of `capacity` bytes in them; `at_end`: as far behind as its alignment lets it.
  Result<std::unique_ptr<Buffer>> Import(ImportedPages pages, uint64_t capacity, bool at_end, VkBufferUsageFlags usage);
  Result<std::unique_ptr<Buffer>> AllocateGuarded(uint64_t size, uint64_t capacity, MemoryKind kind);
  Result<std::unique_ptr<Buffer>> TryAllocate(uint64_t size, MemoryKind kind, std::string_view what);
  Result<> CheckShares(SharedBy shared) const;
  Result<std::shared_ptr<Buffer>> BindShared(uint64_t size, SharedBy shared, std::optional<int> descriptor);
  Result<> CheckRoom(uint64_t bytes, std::string_view what);
  uint64_t AddressOf(VkBuffer buffer) const;
  std::string FreeMemory();
  void Retire(Buffer& buffer);
  void Destroy(const Retired& retired);
  void Collect();
  std::string LastKernels();
  std::string FaultDescription();

  std::shared_ptr<Instance> instance_;
  DeviceProfile profile_;
  DeviceOptions options_;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkDevice handle_ = VK_NULL_HANDLE;
  VolkDeviceTable functions_ = {};
  std::set<std::string> extensions_;       // enabled ones that hand memory to others
  std::unique_ptr<Queue> queue_, side_;    // side_: null where there is none
  std::array<uint32_t, 2> families_ = {};  // of both; of one queue, twice that of it
  VmaAllocator_T* allocator_ = nullptr;
  std::unique_ptr<PipelineStore> pipelines_;
  std::unique_ptr<Transfer> transfer_;
  std::unique_ptr<BufferPool> pool_;
  std::atomic<uint64_t> allocated_ = 0, peak_ = 0, next_id_ = 1;

  mutable std::mutex mutex_;  // of what follows
  std::vector<Retired> retired_;
  std::array<Recent, 16> recent_;
  std::optional<Status> lost_;
  std::atomic<bool> is_lost_ = false;
};

}  // namespace krafla::vk
