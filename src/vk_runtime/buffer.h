// SPDX-License-Identifier: Apache-2.0
// Device memory with an owner.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "vk_runtime/vk_api.h"

struct VmaAllocation_T;

namespace krafla::vk {

class BufferPool;
class Device;
class Transfer;

enum class MemoryKind : uint8_t {
  kDevice,     // where kernels work: fast for the device; mapped too where the device's memory is unified
  kUpload,     // mapped, written by the host in order (argument tables, staging)
  kReadback,   // mapped and cached, read by the host
  kPredicate,  // as kDevice, for Launch::predicate; of devices with conditional rendering
};

// May be dropped while the device still works on it: the memory goes back when the last use is complete.
class Buffer {
 public:
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  uint64_t size() const { return size_; }          // as asked for
  uint64_t capacity() const { return capacity_; }  // a multiple of 16: whole words may be touched past `size`
  MemoryKind kind() const { return kind_; }
  uint64_t id() const { return id_; }  // never used again, unlike handle and address
  VkBuffer handle() const { return handle_; }
  uint64_t address() const { return address_; }  // 0 without buffer device addresses
  // Null if not mapped. Wait for the buffer's last use first (Device::WaitFor); after that the host may read and write
  // it directly, where `host_cached` without a staging copy.
  std::byte* host() const { return host_; }
  bool host_cached() const { return host_cached_; }
  // Somebody else's VkBuffer (Device::Borrow).
  bool is_borrowed() const { return is_borrowed_; }
  Device& device() const { return *device_; }

  // The last submission that uses this buffer. Set by who submits.
  uint64_t last_use() const { return last_use_.load(std::memory_order_acquire); }
  void Use(uint64_t submission) const {
    uint64_t seen = last_use_.load(std::memory_order_relaxed);
    while (seen < submission && !last_use_.compare_exchange_weak(seen, submission, std::memory_order_acq_rel)) {}
  }

 private:
  friend class BufferPool;
  friend class Device;
  friend class Transfer;
  Buffer() = default;

  Device* device_ = nullptr;
  std::shared_ptr<Device> keep_;  // null for the device's own buffers
  VkBuffer handle_ = VK_NULL_HANDLE;
  VmaAllocation_T* allocation_ = nullptr;
  VkDeviceMemory imported_ = VK_NULL_HANDLE;  // instead of allocation_: the caller's pages, or shared memory
  std::shared_ptr<const void> pages_;         // what owns those, or a borrowed buffer
  bool is_borrowed_ = false;
  uint64_t size_ = 0, capacity_ = 0, address_ = 0, id_ = 0;
  std::byte* host_ = nullptr;
  bool host_cached_ = false;
  MemoryKind kind_ = MemoryKind::kDevice;
  mutable std::atomic<uint64_t> last_use_ = 0;
};

}  // namespace krafla::vk
