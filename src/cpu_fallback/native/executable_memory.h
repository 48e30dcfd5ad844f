// SPDX-License-Identifier: Apache-2.0
// Machine code that this process made: pages are written first and run then, never both. A function takes whole pages
// of an area that many share, so that the process has few mappings.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace krafla::cpu::native {

class ExecutableMemory {
 public:
  // Null where the system gives no such memory.
  static std::unique_ptr<ExecutableMemory> Make(std::span<const std::byte> code);
  ~ExecutableMemory();
  ExecutableMemory(const ExecutableMemory&) = delete;
  ExecutableMemory& operator=(const ExecutableMemory&) = delete;

  const void* address() const { return address_; }
  std::size_t bytes() const { return pages_ * kPage; }

 private:
  static constexpr std::size_t kPage = 4096;
  ExecutableMemory(std::byte* address, std::size_t pages) : address_(address), pages_(pages) {}

  std::byte* address_;
  std::size_t pages_;
};

}  // namespace krafla::cpu::native
