// SPDX-License-Identifier: Apache-2.0
#include "allocations.h"

#include <gtest/gtest.h>
#include <link.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCATIONS 1
#else
#define COUNTS_ALLOCATIONS 0
#endif

namespace {

std::atomic<int64_t> of_all = 0, of_onednn = 0;
// Where its library lies; set before anything is counted.
std::atomic<uintptr_t> onednn_begin = 0, onednn_end = 0;

[[maybe_unused]] void Count(const void* caller) {
  const auto at = reinterpret_cast<uintptr_t>(caller);
  ++(at >= onednn_begin && at < onednn_end ? of_onednn : of_all);
}

int FindOnednn(dl_phdr_info* info, std::size_t, void*) {
  if (info->dlpi_name == nullptr || std::strstr(info->dlpi_name, "libdnnl") == nullptr) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    onednn_begin = info->dlpi_addr + segment.p_vaddr;
    onednn_end = onednn_begin + segment.p_memsz;
  }
  return 1;
}

}  // namespace

#if COUNTS_ALLOCATIONS
extern "C" {
// The C library's own names of them.
void* __libc_malloc(std::size_t size);                           // NOLINT
void* __libc_calloc(std::size_t count, std::size_t size);        // NOLINT
void* __libc_realloc(void* data, std::size_t size);              // NOLINT
void* __libc_memalign(std::size_t alignment, std::size_t size);  // NOLINT

void* malloc(std::size_t size) noexcept {
  Count(__builtin_return_address(0));
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) noexcept {
  Count(__builtin_return_address(0));
  return __libc_calloc(count, size);
}
void* realloc(void* data, std::size_t size) noexcept {
  Count(__builtin_return_address(0));
  return __libc_realloc(data, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  Count(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}
void* memalign(std::size_t alignment, std::size_t size) noexcept {
  Count(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t size) noexcept {
  Count(__builtin_return_address(0));
  *out = __libc_memalign(alignment, size);
  return *out == nullptr ? ENOMEM : 0;
}
}

// Of its own, as the C++ library's calls malloc for everybody.
void* operator new(std::size_t size) {
  Count(__builtin_return_address(0));
  void* out = __libc_malloc(size == 0 ? 1 : size);
  if (out == nullptr) throw std::bad_alloc();
  return out;
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }
#endif

namespace krafla::testing {

Allocations TakeAllocations() {
  if (onednn_end == 0) ::dl_iterate_phdr(FindOnednn, nullptr);
  Allocations out;
  out.are_counted = COUNTS_ALLOCATIONS != 0;
  out.all = of_all.exchange(0);
  out.onednn = of_onednn.exchange(0);
  return out;
}

TEST(AllocationsTest, AreCounted) {
  TakeAllocations();
  void* volatile block = std::malloc(100);
  std::free(block);
  auto* volatile number = new int(1);
  delete number;
  const Allocations counted = TakeAllocations();
  if (!counted.are_counted) GTEST_SKIP() << "A sanitizer has malloc here.";
  EXPECT_EQ(counted.all, 2);
}

}  // namespace krafla::testing
