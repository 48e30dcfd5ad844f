// SPDX-License-Identifier: Apache-2.0
#include "base/host_blocks.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>
#include <new>
#include <vector>

#include "base/guards.h"
#include "base/host_memory.h"
#include "base/system.h"
#include "krafla/hooks.h"

namespace krafla {
namespace {

// The address sanitizer sees no use of a freed block that is kept.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kKeeps = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kKeeps = false;
#else
constexpr bool kKeeps = true;
#endif
#else
constexpr bool kKeeps = true;
#endif

// Blocks that have room for a large page begin with one.
constexpr std::align_val_t AlignmentOf(std::size_t size) {
  return std::align_val_t{size < os::kLargePageBytes ? AlignedBytes::kAlignment : os::kLargePageBytes};
}
constexpr std::size_t kMostBlocks = 64;

// Sizes within an eighth of each other share their blocks; pages that nobody touches are not given by the system.
std::size_t CapacityFor(std::size_t size) {
  if (size < kKeptBytesFrom) return size;
  const std::size_t step = std::bit_floor(size) / 8;
  return (size + step - 1) / step * step;
}
bool IsKept(std::size_t size) {
  return kKeeps && size >= kKeptBytesFrom && size < kCountedHostBytes && GuardsInUse() == Guards::kNone;
}

// A scalar's block is the C++ library's, as small objects are: programs are rewritten with scalars in the middle of
// steps that cannot fail.
constexpr std::size_t kSmallBytes = 64;

// Set before the first block is taken, and never again.
struct Source {
  ArrayAllocator allocator;
  std::atomic<bool> is_used = false;
};
Source& TheSource() {
  static Source* source = new Source;
  return *source;
}

void* FromSource(std::size_t size) {
  Source& source = TheSource();
  if (!source.is_used.load(std::memory_order_relaxed)) source.is_used = true;
  if (source.allocator.allocate != nullptr && size > kSmallBytes)
    return source.allocator.allocate(size, AlignedBytes::kAlignment, source.allocator.user);
  if (GuardsInUse() != Guards::kNone) return TakeGuardedBlock(size, AlignedBytes::kAlignment);
  void* data = ::operator new(size, AlignmentOf(size), std::nothrow);
  if (data != nullptr && size >= os::kLargePageBytes) os::PreferLargePages(data, size);
  return data;
}
void ToSource(void* data, std::size_t size) noexcept {
  const ArrayAllocator& allocator = TheSource().allocator;
  if (allocator.release != nullptr && size > kSmallBytes)
    return allocator.release(data, size, AlignedBytes::kAlignment, allocator.user);
  if (GuardsInUse() != Guards::kNone) return ReturnGuardedBlock(static_cast<std::byte*>(data), size);
  ::operator delete(data, AlignmentOf(size));
}

struct Block {
  std::byte* data;
  std::size_t capacity;
};

class KeptBlocks {
 public:
  std::byte* Take(std::size_t capacity) {
    const std::lock_guard lock(mutex_);
    // The last one to come is the likeliest to be in the cache.
    const auto found =
        std::find_if(blocks_.rbegin(), blocks_.rend(), [&](const Block& b) { return b.capacity == capacity; });
    if (found == blocks_.rend()) return nullptr;
    std::byte* const data = found->data;
    blocks_.erase(std::next(found).base());
    counts_.kept_bytes -= capacity;
    ++counts_.reused;
    return data;
  }
  // False: there is no room for it.
  bool Keep(Block block) {
    if (block.capacity > MostKeptBytes()) return false;
    for (;;) {
      Block oldest;
      {
        const std::lock_guard lock(mutex_);
        if (blocks_.size() < kMostBlocks && counts_.kept_bytes + block.capacity <= MostKeptBytes()) {
          blocks_.push_back(block);
          counts_.kept_bytes += block.capacity;
          return true;
        }
        oldest = blocks_.front();
        blocks_.erase(blocks_.begin());
        counts_.kept_bytes -= oldest.capacity;
      }
      ToSource(oldest.data, oldest.capacity);
    }
  }
  void Drop() {
    const std::lock_guard lock(mutex_);
    for (const Block& b : blocks_) ToSource(b.data, b.capacity);
    blocks_.clear();
    counts_.kept_bytes = 0;
  }
  HostBlockCounts counts() {
    const std::lock_guard lock(mutex_);
    return counts_;
  }

 private:
  KeptBlocks() { blocks_.reserve(kMostBlocks); }
  friend KeptBlocks& Kept();
  std::mutex mutex_;
  std::vector<Block> blocks_;  // the oldest first
  HostBlockCounts counts_;
};
// Arrays may be dropped after static objects are gone.
KeptBlocks& Kept() {
  static KeptBlocks* kept = new KeptBlocks;
  return *kept;
}

}  // namespace

uint64_t MostKeptBytes() {
  static const uint64_t most = std::min<uint64_t>(uint64_t{128} << 20, HostMemoryLimit() / 32);
  return most;
}
void DropKeptBlocks() noexcept { Kept().Drop(); }
HostBlockCounts CountHostBlocks() { return Kept().counts(); }

std::byte* TakeHostBlock(std::size_t size) {
  const std::size_t capacity = IsKept(size) ? CapacityFor(size) : size;
  if (IsKept(size))
    if (std::byte* kept = Kept().Take(capacity)) return kept;
  if (size >= kCountedHostBytes) ClaimHostBytes(size);
  void* data = FromSource(capacity);
  if (data == nullptr) {
    DropKeptBlocks();
    data = FromSource(capacity);
  }
  if (data != nullptr) return static_cast<std::byte*>(data);
  if (size >= kCountedHostBytes) ReturnHostBytes(size);
  throw std::bad_alloc();
}

void ReturnHostBlock(std::byte* data, std::size_t size) noexcept {
  if (IsKept(size) && Kept().Keep({data, CapacityFor(size)})) return;
  ToSource(data, IsKept(size) ? CapacityFor(size) : size);
  if (size >= kCountedHostBytes) ReturnHostBytes(size);
}

Result<> SetArrayAllocator(const ArrayAllocator& allocator) {
  if (allocator.allocate == nullptr || allocator.release == nullptr)
    return InvalidArgument("An ArrayAllocator needs both of its functions, allocate and release.");
  Source& source = TheSource();
  if (source.is_used)
    return FailedPrecondition(
        "Memory has been allocated already: set the allocator before anything else of krafla is called.");
  source.allocator = allocator;
  return {};
}

}  // namespace krafla
