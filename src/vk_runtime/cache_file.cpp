// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/cache_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>

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
    if (fd >= 0) ::close(fd);
  }
};

bool ReadAll(int fd, void* to, std::size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    ssize_t n = ::read(fd, at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

bool WriteAll(int fd, const void* from, std::size_t bytes) {
  auto* at = static_cast<const char*>(from);
  while (bytes > 0) {
    ssize_t n = ::write(fd, at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

bool MakeFolders(const std::string& path) {
  for (std::size_t at = 1; at != std::string::npos;) {
    at = path.find('/', at + 1);
    if (::mkdir(path.substr(0, at).c_str(), 0700) != 0 && errno != EEXIST) return false;
  }
  return true;
}

// Removes what processes left that were ended while they wrote: NAME.bin.PID.N.tmp, of no use to anybody after so long.
void Sweep(const std::string& folder) {
  constexpr time_t kOldSeconds = 600;
  struct CloseFolder {
    void operator()(DIR* d) const { ::closedir(d); }
  };
  const std::unique_ptr<DIR, CloseFolder> open(::opendir(folder.c_str()));
  if (open == nullptr) return;
  const time_t now = ::time(nullptr);
  while (const dirent* entry = ::readdir(open.get())) {
    const std::string_view name = entry->d_name;
    if (!name.ends_with(".tmp") || name.find(".bin.") == name.npos) continue;
    struct stat info;
    if (::fstatat(::dirfd(open.get()), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode) ||
        info.st_uid != ::geteuid() || now - info.st_mtime < kOldSeconds)
      continue;
    ::unlinkat(::dirfd(open.get()), entry->d_name, 0);
  }
}

}  // namespace

std::string DefaultCacheDir() {
  auto env = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (std::string dir = env("KRAFLA_CACHE_DIR"); !dir.empty()) return dir;
  // The XDG specification: a relative path is to be ignored.
  if (std::string dir = env("XDG_CACHE_HOME"); dir.starts_with('/')) return dir + "/krafla";
  if (std::string dir = env("HOME"); dir.starts_with('/')) return dir + "/.cache/krafla";
  return "";
}

std::optional<std::vector<std::byte>> ReadCacheFile(const std::string& path, const DeviceProfile& device) {
  // Without O_NONBLOCK a pipe in its place would keep the call until somebody writes to it.
  File file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  struct stat info;
  if (file.fd < 0 || ::fstat(file.fd, &info) != 0) return std::nullopt;
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 022) != 0) return std::nullopt;
  Header header;
  if (!ReadAll(file.fd, &header, sizeof(header))) return std::nullopt;
  if (header.payload_bytes > kMaxBytes ||
      static_cast<uint64_t>(info.st_size) != sizeof(header) + header.payload_bytes) {
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
  std::string temporary = Format("{}.{}.{}.tmp", path, ::getpid(), serial++);
  Header header = HeaderFor(device, payload);
  bool written;
  {
    File file{::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)};
    if (file.fd < 0) return false;
    written = WriteAll(file.fd, &header, sizeof(header)) && WriteAll(file.fd, payload.data(), payload.size());
  }
  if (written && ::rename(temporary.c_str(), path.c_str()) == 0) return true;
  ::unlink(temporary.c_str());
  return false;
}

}  // namespace krafla::vk
