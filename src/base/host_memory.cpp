// SPDX-License-Identifier: Apache-2.0
#include "base/host_memory.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <limits>
#include <mutex>
#include <string_view>

#include "base/host_blocks.h"
#include "base/system.h"

namespace krafla {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

std::mutex claiming;
uint64_t claimed = 0;  // bytes of the blocks that are counted

// The beginning of a small file of /proc or /sys, without allocating.
std::string_view ReadStart(const char* path, char* buffer, std::size_t size) {
  std::FILE* file = std::fopen(path, "r");
  if (file == nullptr) return {};
  std::size_t got = std::fread(buffer, 1, size, file);
  std::fclose(file);
  return {buffer, got};
}

// The first number in `text` after `key`; `otherwise` where there is none ("max").
uint64_t NumberAfter(std::string_view text, std::string_view key, uint64_t otherwise) {
  std::size_t at = text.find(key);
  if (at == std::string_view::npos) return otherwise;
  text.remove_prefix(at + key.size());
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end != text.data() ? value : otherwise;
}

uint64_t ReadMeminfo(std::string_view key, uint64_t otherwise) {
  char buffer[4096];
  uint64_t kib = NumberAfter(ReadStart("/proc/meminfo", buffer, sizeof(buffer)), key, kNoLimit);
  return kib == kNoLimit ? otherwise : kib * 1024;
}

uint64_t FindLimit() {
  uint64_t swap = ReadMeminfo("SwapTotal:", 0);
  uint64_t memory = ReadMeminfo("MemTotal:", kNoLimit - swap);
  uint64_t limit = std::min(memory + swap, os::MachineMemory());
  char buffer[64];
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"})
    limit = std::min(limit, NumberAfter(ReadStart(path, buffer, sizeof(buffer)), "", kNoLimit));
  return std::min(limit, os::MemoryLimit());
}

}  // namespace

uint64_t HostMemoryLimit() {
  static const uint64_t limit = FindLimit();
  return limit;
}

namespace {

bool HasRoomBeside(uint64_t held, uint64_t bytes) {
  // Below this what the system has left is not looked up: that takes some 20 us.
  if (bytes < kCountedHostBytes) return true;
  if (bytes > HostMemoryLimit() || held > HostMemoryLimit() - bytes) return false;
  DropKeptBlocks();
  const uint64_t free =
      std::min(ReadMeminfo("MemAvailable:", kNoLimit / 4) + ReadMeminfo("SwapFree:", 0), os::FreeMemory());
  const uint64_t resident = os::ResidentBytes(), promised = held > resident ? held - resident : 0;
  return promised <= free && bytes <= free - promised;
}

}  // namespace

bool HostHasRoom(uint64_t bytes) {
  if (bytes < kCountedHostBytes) return true;
  std::lock_guard lock(claiming);
  return HasRoomBeside(claimed, bytes);
}

void ClaimHostBytes(std::size_t size) {
  std::lock_guard lock(claiming);
  if (!HasRoomBeside(claimed, size)) throw std::bad_alloc();
  claimed += size;
}

void ReturnHostBytes(std::size_t size) noexcept {
  std::lock_guard lock(claiming);
  claimed -= size;
}

}  // namespace krafla
