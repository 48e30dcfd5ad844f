// SPDX-License-Identifier: Apache-2.0
#include "base/host_memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <limits>
#include <string_view>

namespace krafla {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();
// Below this what the system has left is not looked up: that takes some 20 us.
constexpr uint64_t kLookFrom = uint64_t{64} << 20;

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
  uint64_t kib = NumberAfter(ReadStart("/proc/meminfo", buffer, sizeof(buffer)), key, kUnlimited);
  return kib == kUnlimited ? otherwise : kib * 1024;
}

uint64_t FindLimit() {
  uint64_t swap = ReadMeminfo("SwapTotal:", 0);
  uint64_t memory = ReadMeminfo("MemTotal:", kUnlimited - swap);
  uint64_t limit = memory + swap;
  char buffer[64];
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"})
    limit = std::min(limit, NumberAfter(ReadStart(path, buffer, sizeof(buffer)), "", kUnlimited));
  for (int resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit r{};
    if (getrlimit(static_cast<__rlimit_resource_t>(resource), &r) == 0 && r.rlim_cur != RLIM_INFINITY)
      limit = std::min<uint64_t>(limit, r.rlim_cur);
  }
  return limit;
}

}  // namespace

uint64_t HostMemoryLimit() {
  static const uint64_t limit = FindLimit();
  return limit;
}

bool HostHasRoom(uint64_t bytes) {
  if (bytes < kLookFrom) return true;
  if (bytes > HostMemoryLimit()) return false;
  const uint64_t free = ReadMeminfo("MemAvailable:", kUnlimited / 2);
  return bytes <= free + ReadMeminfo("SwapFree:", 0);
}

}  // namespace krafla
