// SPDX-License-Identifier: Apache-2.0
// How much of the host's memory this process may use. Linux promises more than there is and ends a process that
// believes it, so large allocations ask here first.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <vector>

#include "krafla/aligned_bytes.h"

namespace krafla {

// The smallest of the machine's memory with its swap, the control group's limit and the address-space limit. Read once.
uint64_t HostMemoryLimit();

// Whether that many bytes more can be had: within the limit beside the blocks that are counted
// (krafla/aligned_bytes.h), and no more than the system has left now, less what it has promised for those blocks and
// not given yet.
bool HostHasRoom(uint64_t bytes);

// For arrays whose sizes come from a program, where AlignedBytes does not serve: they are counted and refused as its
// are.
template <typename T>
struct HostAllocator {
  using value_type = T;
  HostAllocator() = default;
  template <typename U>
  HostAllocator(const HostAllocator<U>&) {}

  T* allocate(std::size_t n) {
    if (n > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_alloc();
    if (n * sizeof(T) >= kCountedHostBytes) ClaimHostBytes(n * sizeof(T));
    try {
      return std::allocator<T>().allocate(n);
    } catch (...) {
      if (n * sizeof(T) >= kCountedHostBytes) ReturnHostBytes(n * sizeof(T));
      throw;
    }
  }
  void deallocate(T* p, std::size_t n) {
    std::allocator<T>().deallocate(p, n);
    if (n * sizeof(T) >= kCountedHostBytes) ReturnHostBytes(n * sizeof(T));
  }
  bool operator==(const HostAllocator&) const = default;
};
template <typename T>
using HostVector = std::vector<T, HostAllocator<T>>;

}  // namespace krafla
