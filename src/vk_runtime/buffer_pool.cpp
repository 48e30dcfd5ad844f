// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/buffer_pool.h"

#include <algorithm>

#include "vk_runtime/device.h"

namespace krafla::vk {
namespace {

constexpr uint64_t kGranule = 256;  // arrays of nearly one size share buffers
constexpr uint64_t kCheapBytes = uint64_t{256} << 20;
constexpr uint64_t kCheapPart = 16;  // of the device's memory

}  // namespace

uint64_t BufferPool::Limit() const {
  uint64_t memory = 0;
  for (const auto& heap : device_.profile().heaps)
    if (heap.device_local) memory = std::max(memory, heap.bytes);
  return std::max(used_bytes_, std::min(memory / kCheapPart, kCheapBytes));
}

// The one that was used last, whose memory is nearest, of those that were not used after submission `complete`.
std::unique_ptr<Buffer> BufferPool::TakeKept(uint64_t size, uint64_t complete) {
  auto it = kept_.find(size);
  if (it == kept_.end()) return nullptr;
  std::vector<Kept>& kept = it->second;
  for (std::size_t i = kept.size(); i-- > 0;) {
    if (kept[i].buffer->last_use() > complete) continue;
    std::unique_ptr<Buffer> out = std::move(kept[i].buffer);
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
    kept_bytes_ -= size;
    return out;
  }
  return nullptr;
}

Result<std::unique_ptr<Buffer>> BufferPool::Take(uint64_t size, bool idle, std::string_view what) {
  if (size > UINT64_MAX - kGranule) return ResourceExhausted("{} of {} bytes was wanted.", what, size);
  const uint64_t rounded = std::max(kGranule, (size + kGranule - 1) / kGranule * kGranule);
  {
    uint64_t complete = UINT64_MAX;
    if (idle) { KRAFLA_ASSIGN(complete, device_.Completed()); }
    std::lock_guard lock(mutex_);
    if (std::unique_ptr<Buffer> out = TakeKept(rounded, complete)) {
      used_bytes_ += rounded;
      return out;
    }
  }
  KRAFLA_ASSIGN(std::unique_ptr<Buffer> made, device_.AllocateOwned(rounded, MemoryKind::kDevice, what));
  std::lock_guard lock(mutex_);
  used_bytes_ += rounded;
  return made;
}

std::unique_ptr<Buffer> BufferPool::RemoveOldest() {
  auto oldest = kept_.end();
  for (auto it = kept_.begin(); it != kept_.end();) {
    if (it->second.empty()) {
      it = kept_.erase(it);
      continue;
    }
    if (oldest == kept_.end() || it->second.front().when < oldest->second.front().when) oldest = it;
    ++it;
  }
  if (oldest == kept_.end()) return nullptr;
  std::unique_ptr<Buffer> out = std::move(oldest->second.front().buffer);
  oldest->second.erase(oldest->second.begin());
  kept_bytes_ -= oldest->first;
  return out;
}

void BufferPool::Give(std::unique_ptr<Buffer> buffer) {
  std::vector<std::unique_ptr<Buffer>> dropped;  // after the lock
  const uint64_t size = buffer->size();
  std::lock_guard lock(mutex_);
  used_bytes_ -= size;
  if (!device_.Alive()) {
    dropped.push_back(std::move(buffer));
    return;
  }
  kept_[size].push_back({std::move(buffer), clock_++});
  kept_bytes_ += size;
  for (const uint64_t limit = Limit(); kept_bytes_ > limit;) dropped.push_back(RemoveOldest());
}

bool BufferPool::Clear() {
  std::map<uint64_t, std::vector<Kept>> dropped;
  std::lock_guard lock(mutex_);
  dropped.swap(kept_);
  const bool any = kept_bytes_ > 0;
  kept_bytes_ = 0;
  return any;
}

}  // namespace krafla::vk
