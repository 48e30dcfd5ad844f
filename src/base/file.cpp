// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>
#include <stdexcept>

#include "base/host_memory.h"
#include "base/system.h"

namespace krafla {
namespace {

constexpr std::size_t kFirstRead = std::size_t{64} << 10;  // of what has no size
constexpr int kPipeLimitMs = 60'000;                       // without a byte from the writer of a pipe
constexpr int kWriterLimitMs = 2'000;                      // without a writer

std::string Reason(int error) { return std::strerror(error); }

Failure CannotOpen(const std::string& path, int error) {
  const StatusCode code = error == EACCES || error == EPERM ? StatusCode::kPermissionDenied : StatusCode::kNotFound;
  return MakeError(code, "'{}' cannot be opened: {}.", path, Reason(error));
}

const char* KindName(os::FileKind kind) {
  switch (kind) {
    case os::FileKind::kFolder: return "a folder";
    case os::FileKind::kPipe: return "a pipe";
    case os::FileKind::kSocket: return "a socket";
    case os::FileKind::kDevice: return "a device";
    case os::FileKind::kFile:
    case os::FileKind::kOther: break;
  }
  return "something else";
}

// Read to the end; `expected` bytes of it are foreseen. Waits `limit_ms` (-1: for ever) for each part of a pipe.
Result<std::string> ReadToEnd(int descriptor, const std::string& path, std::size_t expected, int limit_ms) {
  std::string out;
  std::size_t have = 0;
  const auto no_room = [&](std::size_t bytes) {
    return ResourceExhausted("'{}' has {} bytes or more, for which the host has no memory (this process may have {}).",
                             path, bytes, HostMemoryLimit());
  };
  try {
    for (std::size_t room = expected + 1;;) {
      if (!HostHasRoom(room)) return no_room(room);
      out.resize_and_overwrite(room, [](char*, std::size_t size) { return size; });
      while (have < out.size()) {
        const int64_t got = os::ReadSome(descriptor, out.data() + have, out.size() - have);
        if (got == 0) {
          out.resize(have);
          return out;
        }
        if (got > 0) {
          have += static_cast<std::size_t>(got);
          continue;
        }
        if (got != os::kAgain) return DataLoss("'{}' cannot be read: {}.", path, Reason(errno));
        if (!os::WaitToRead(descriptor, limit_ms))
          return DataLoss("'{}' is a pipe, and nobody has written to it for {} ms.", path, limit_ms);
      }
      room = have + std::max(have, kFirstRead);
    }
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {}
  return no_room(have);
}

}  // namespace

Result<InputFile> InputFile::OpenFileOrPipe(const std::string& path, bool takes_pipe) {
  os::FileInfo info;
  // Where folders cannot be opened the reason would be another one.
  const auto wrong_kind = [&]() -> Failure {
    return InvalidArgument("'{}' is not a file but {}.", path, KindName(info.kind));
  };
  // A pipe that is opened and closed again takes what its writer has written along.
  if (!takes_pipe && os::DescribePath(path, info, /*through_links=*/true) && info.kind == os::FileKind::kPipe)
    return wrong_kind();
  InputFile out(path, os::OpenToRead(path));
  if (out.descriptor_ < 0) {
    const int error = errno;
    if (os::DescribePath(path, info) && info.kind == os::FileKind::kFolder) return wrong_kind();
    return CannotOpen(path, error);
  }
  if (!os::Describe(out.descriptor_, info)) return CannotOpen(path, errno);
  const bool is_pipe = info.kind == os::FileKind::kPipe;
  if (info.kind != os::FileKind::kFile && !(takes_pipe && is_pipe)) return wrong_kind();
  out.size_ = is_pipe ? -1 : info.bytes;
  return out;
}

Result<InputFile> InputFile::Open(const std::string& path) { return OpenFileOrPipe(path, /*takes_pipe=*/false); }

InputFile::~InputFile() {
  if (descriptor_ >= 0) os::CloseFile(descriptor_);
}

Result<> InputFile::ReadAt(int64_t offset, void* to, std::size_t bytes) const {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const int64_t got = os::ReadSomeAt(descriptor_, at, bytes, offset);
    if (got < 0) return DataLoss("'{}' cannot be read: {}.", path_, Reason(errno));
    if (got == 0) return DataLoss("'{}' ends at byte {}; {} more were expected.", path_, offset, bytes);
    at += got;
    offset += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return {};
}

Result<std::string> ReadFile(const std::string& path) {
  KRAFLA_ASSIGN(const InputFile file, InputFile::OpenFileOrPipe(path, /*takes_pipe=*/true));
  if (file.size_ >= 0) return ReadToEnd(file.descriptor_, path, static_cast<std::size_t>(file.size_), kPipeLimitMs);
  // A pipe without a writer reads as if it had ended; its writer may be on its way.
  KRAFLA_ASSIGN(std::string out, os::WaitToRead(file.descriptor_, kWriterLimitMs)
                                     ? ReadToEnd(file.descriptor_, path, kFirstRead, kPipeLimitMs)
                                     : Result<std::string>(std::string()));
  if (out.empty()) return DataLoss("'{}' is a pipe that nobody writes to.", path);
  return out;
}

namespace {

// The path without the end of a long name, so that there is room for more: names have at most 255 bytes.
std::string WithShortName(const std::string& path) {
  constexpr std::size_t kRoom = 200;
  const std::size_t name = std::filesystem::path(path).filename().string().size();
  if (name <= kRoom) return path;
  std::size_t end = path.size() - (name - kRoom);
  while ((static_cast<unsigned char>(path[end]) & 0xc0) == 0x80) --end;  // not within a character of UTF-8
  return path.substr(0, end);
}

}  // namespace

Result<> WriteWholeFile(const std::string& path, const std::function<Result<>(const std::string& to)>& write) {
  os::FileInfo there;
  if (os::DescribePath(path, there) && there.kind != os::FileKind::kFile) return write(path);
  static std::atomic<unsigned> serial = 0;
  const std::string partial = Format("{}.{}.{}.part", WithShortName(path), os::ProcessId(), serial++);
  Result<> done = write(partial);
  if (done && !os::ReplaceFile(partial, path))
    done = DataLoss("'{}' cannot be written: {}.", path, std::strerror(errno));
  if (!done) os::RemoveFile(partial);
  return done;
}

std::string FolderOf(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

Result<std::string> ReadStandardInput() { return ReadToEnd(os::kStandardInput, "standard input", kFirstRead, -1); }

Result<MappedFile> MappedFile::Open(const std::string& path) {
  KRAFLA_ASSIGN(const InputFile file, InputFile::Open(path));
  const auto size = static_cast<std::size_t>(file.size());
  if (size == 0) return MappedFile({});
  const void* data = os::MapToRead(file.descriptor_, size);
  if (data == nullptr)
    return ResourceExhausted("{} of {} bytes cannot be mapped: {}.", path, size, std::strerror(errno));
  return MappedFile({static_cast<const char*>(data), size});
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) os::Unmap(bytes_.data(), bytes_.size());
}

}  // namespace krafla
