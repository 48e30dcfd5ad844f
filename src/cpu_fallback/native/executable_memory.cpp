// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/native/executable_memory.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/system.h"

namespace krafla::cpu::native {

namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kAreaPages = 256;  // an area has 1 MiB

// Pages that may neither be read nor written nor run until a function has them.
class CodeAreas {
 public:
  std::byte* Take(std::size_t pages) {
    const std::lock_guard lock(mutex_);
    for (Area& area : areas_)
      if (std::byte* found = Find(area, pages)) return found;
    const std::size_t count = std::max(kAreaPages, pages);
    void* memory = os::ReservePages(count * kPageBytes);
    if (memory == nullptr) return nullptr;
    areas_.push_back({static_cast<std::byte*>(memory), std::vector<bool>(count, false), 0});
    return Find(areas_.back(), pages);
  }
  void Give(std::byte* address, std::size_t pages) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < areas_.size(); ++i) {
      Area& area = areas_[i];
      if (address < area.base || address >= area.base + area.taken.size() * kPageBytes) continue;
      const auto first = static_cast<std::size_t>(address - area.base) / kPageBytes;
      for (std::size_t p = first; p < first + pages; ++p) area.taken[p] = false;
      area.count -= pages;
      if (area.count == 0) {
        os::ReleasePages(area.base, area.taken.size() * kPageBytes);
        areas_.erase(areas_.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        // The memory goes back, and what was there can run no more.
        os::MakeEmpty(address, pages * kPageBytes);
        area.first_free = std::min(area.first_free, first);
      }
      return;
    }
  }

 private:
  struct Area {
    std::byte* base = nullptr;
    std::vector<bool> taken;
    std::size_t count = 0;
    std::size_t first_free = 0;  // none before it
  };
  static std::byte* Find(Area& area, std::size_t pages) {
    std::size_t run = 0;
    if (area.taken.size() - area.count < pages) return nullptr;
    while (area.first_free < area.taken.size() && area.taken[area.first_free]) ++area.first_free;
    for (std::size_t p = area.first_free; p < area.taken.size(); ++p) {
      run = area.taken[p] ? 0 : run + 1;
      if (run < pages) continue;
      for (std::size_t q = p + 1 - pages; q <= p; ++q) area.taken[q] = true;
      area.count += pages;
      return area.base + (p + 1 - pages) * kPageBytes;
    }
    return nullptr;
  }

  std::mutex mutex_;
  std::vector<Area> areas_;
};

// Lives as long as any code does, through the end of the process.
CodeAreas& Areas() {
  static CodeAreas* areas = new CodeAreas;
  return *areas;
}

}  // namespace

std::unique_ptr<ExecutableMemory> ExecutableMemory::Make(std::span<const std::byte> code) {
  static_assert(kPage == kPageBytes);
  if (code.empty()) return nullptr;
  const std::size_t pages = (code.size() + kPage - 1) / kPage;
  std::byte* address = Areas().Take(pages);
  if (address == nullptr) return nullptr;
  if (os::MakeWritable(address, pages * kPage)) {
    std::memcpy(address, code.data(), code.size());
    if (os::MakeExecutable(address, pages * kPage))
      return std::unique_ptr<ExecutableMemory>(new ExecutableMemory(address, pages));
  }
  Areas().Give(address, pages);
  return nullptr;
}

ExecutableMemory::~ExecutableMemory() { Areas().Give(address_, pages_); }

}  // namespace krafla::cpu::native
