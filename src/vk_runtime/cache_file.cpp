// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/cache_file.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/system.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace krafla::vk {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{512} << 20;
constexpr char kMagic[8] = {'K', 'R', 'A', 'F', 'L', 'A', 'V', 'K'};
constexpr uint32_t kVersion = 1;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  uint32_t vendor_id, device_id, driver_version, api_version;
  char pipeline_cache_uuid[32], device_uuid[32], driver_uuid[32];
  uint64_t payload_bytes;
  uint64_t checksum[2];
};
static_assert(sizeof(Header) == 152 && std::is_trivially_copyable_v<Header>);

Header HeaderFor(const DeviceProfile& d, std::span<const std::byte> payload) {
  Header h;
  std::memset(&h, 0, sizeof(h));
  std::memcpy(h.magic, kMagic, sizeof(kMagic));
  h.version = kVersion;
  h.header_bytes = sizeof(Header);
  h.vendor_id = d.vendor_id;
  h.device_id = d.device_id;
  h.driver_version = d.driver_version;
  h.api_version = d.api_major << 22 | d.api_minor << 12 | d.api_patch;
  auto put = [](char(&to)[32], const std::string& from) {
    std::memcpy(to, from.data(), std::min<std::size_t>(32, from.size()));
  };
  put(h.pipeline_cache_uuid, d.pipeline_cache_uuid);
  put(h.device_uuid, d.device_uuid);
  put(h.driver_uuid, d.driver_uuid);
  h.payload_bytes = payload.size();
  XXH128_hash_t sum = XXH3_128bits(payload.data(), payload.size());
  h.checksum[0] = sum.low64;
  h.checksum[1] = sum.high64;
  return h;
}

struct File {
  int fd;
  ~File() {
    if (fd >= 0) os::CloseFile(fd);
  }
};

bool ReadAll(int fd, void* to, std::size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const int64_t n = os::ReadSome(fd, at, bytes);
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

bool WriteAll(int fd, const void* from, std::size_t bytes) {
  auto* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const int64_t n = os::WriteSome(fd, at, bytes);
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

bool MakeFolders(const std::string& path) {
  for (std::size_t at = 1; at != std::string::npos;) {
    at = path.find('/', at + 1);
    if (!os::MakePrivateFolder(path.substr(0, at))) return false;
  }
  return true;
}

// Removes what processes left that were ended while they wrote: NAME.bin.PID.N.tmp, of no use to anybody after so long.
void Sweep(const std::string& folder) {
  constexpr double kOldSeconds = 600;
  namespace fs = std::filesystem;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string path = it->path().string(), name = it->path().filename().string();
    if (!name.ends_with(".tmp") || name.find(".bin.") == name.npos) continue;
    os::FileInfo info;
    if (os::DescribePath(path, info) && info.kind == os::FileKind::kFile && info.is_mine &&
        info.age_seconds >= kOldSeconds)
      os::RemoveFile(path);
  }
}

}  // namespace

std::string DefaultCacheDir() {
  if (const char* named = std::getenv("KRAFLA_CACHE_DIR"); named != nullptr && *named != '\0') return named;
  const std::string home = os::CacheHome();
  return home.empty() ? "" : home + "/krafla";
}

std::optional<std::vector<std::byte>> ReadCacheFile(const std::string& path, const DeviceProfile& device) {
  File file{os::OpenToRead(path, /*through_links=*/false)};
  os::FileInfo info;
  if (file.fd < 0 || !os::Describe(file.fd, info)) return std::nullopt;
  if (info.kind != os::FileKind::kFile || !info.is_mine || info.others_may_write) return std::nullopt;
  Header header;
  if (!ReadAll(file.fd, &header, sizeof(header))) return std::nullopt;
  if (header.payload_bytes > kMaxBytes || static_cast<uint64_t>(info.bytes) != sizeof(header) + header.payload_bytes) {
    return std::nullopt;
  }
  std::vector<std::byte> payload(header.payload_bytes);
  if (!ReadAll(file.fd, payload.data(), payload.size())) return std::nullopt;
  Header expected = HeaderFor(device, payload);
  if (std::memcmp(&header, &expected, sizeof(header)) != 0) return std::nullopt;
  return payload;
}

bool WriteCacheFile(const std::string& path, const DeviceProfile& device, std::span<const std::byte> payload) {
  if (payload.size() > kMaxBytes) return false;
  std::size_t slash = path.rfind('/');
  if (slash != std::string::npos && slash > 0 && !MakeFolders(path.substr(0, slash))) return false;
  Sweep(slash == std::string::npos ? "." : path.substr(0, slash + 1));
  static std::atomic<unsigned> serial = 0;
  std::string temporary = Format("{}.{}.{}.tmp", path, os::ProcessId(), serial++);
  Header header = HeaderFor(device, payload);
  bool written;
  {
    File file{os::CreateFile(temporary)};
    if (file.fd < 0) return false;
    written = WriteAll(file.fd, &header, sizeof(header)) && WriteAll(file.fd, payload.data(), payload.size());
  }
  if (written && os::ReplaceFile(temporary, path)) return true;
  os::RemoveFile(temporary);
  return false;
}

}  // namespace krafla::vk
