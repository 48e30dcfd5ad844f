// SPDX-License-Identifier: Apache-2.0
// Buffers that were dropped and are kept for the next of their size: a loop whose results are the arguments of its next
// turn allocates nothing.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "krafla/status.h"
#include "vk_runtime/buffer.h"

namespace krafla::vk {

// Any thread may take and give.
class BufferPool {
 public:
  explicit BufferPool(Device& device) : device_(device) {}

  // As Device::AllocateRecycled.
  Result<std::unique_ptr<Buffer>> Take(uint64_t size, bool idle, std::string_view what);
  // Keeps the buffer, and frees those kept longest where that exceeds the limit.
  void Give(std::unique_ptr<Buffer> buffer);
  // Frees everything; false if there was nothing.
  bool Clear();

 private:
  struct Kept {
    std::unique_ptr<Buffer> buffer;
    uint64_t when;
  };
  // Bytes to keep: as many as are in use, and what is cheap for the device in any case.
  uint64_t Limit() const;
  std::unique_ptr<Buffer> TakeKept(uint64_t size, uint64_t complete);
  std::unique_ptr<Buffer> RemoveOldest();

  Device& device_;
  std::mutex mutex_;
  std::map<uint64_t, std::vector<Kept>> kept_;  // by size, each oldest first
  uint64_t kept_bytes_ = 0, used_bytes_ = 0, clock_ = 0;
};

}  // namespace krafla::vk
