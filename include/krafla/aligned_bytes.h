// SPDX-License-Identifier: Apache-2.0
// Bytes at a 64-byte boundary: what literals, arenas and staging on the host are made of. Their own, or somebody
// else's, such as a file's that is mapped.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "krafla/export.h"

KRAFLA_EXPORT_BEGIN
namespace krafla {

// Blocks of this size and more are counted, whoever holds them, and refused (std::bad_alloc) where the host has no room
// for them beside those that are there: the system would promise it, and end the process that believes it.
inline constexpr std::size_t kCountedHostBytes = std::size_t{64} << 20;
void ClaimHostBytes(std::size_t size);
void ReturnHostBytes(std::size_t size) noexcept;

// What AlignedBytes allocates and frees with: 64-byte aligned, larger ones used again (base/host_blocks.h). Throws
// std::bad_alloc.
std::byte* TakeHostBlock(std::size_t size);
void ReturnHostBlock(std::byte* data, std::size_t size) noexcept;

class AlignedBytes {
 public:
  static constexpr std::size_t kAlignment = 64;

  AlignedBytes() = default;
  // `zeroed`: filled with zero bytes, else left as the allocator gave them.
  // Throws std::bad_alloc, which the API boundary turns into RESOURCE_EXHAUSTED.
  explicit AlignedBytes(std::size_t size, bool zeroed = true) : size_(size) {
    if (size == 0) return;
    data_ = TakeHostBlock(size);
    if (zeroed) std::memset(data_, 0, size);
  }
  // Somebody else's, which `owner` keeps and nobody writes; a copy of these has bytes of its own.
  static AlignedBytes Borrowed(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
    AlignedBytes out;
    out.data_ = const_cast<std::byte*>(bytes.data());
    out.size_ = bytes.size();
    out.owner_ = std::move(owner);
    return out;
  }
  AlignedBytes(const AlignedBytes& other) : AlignedBytes(other.size_, false) {
    if (size_ > 0) std::memcpy(data_, other.data_, size_);
  }
  AlignedBytes(AlignedBytes&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        owner_(std::move(other.owner_)) {}
  AlignedBytes& operator=(AlignedBytes other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(owner_, other.owner_);
    return *this;
  }
  ~AlignedBytes() {
    if (data_ != nullptr && owner_ == nullptr) ReturnHostBlock(data_, size_);
  }

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  // Who keeps them; null: these do.
  const std::shared_ptr<const void>& owner() const { return owner_; }
  std::span<std::byte> span() { return {data_, size_}; }
  std::span<const std::byte> span() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::shared_ptr<const void> owner_;
};

}  // namespace krafla
KRAFLA_EXPORT_END
