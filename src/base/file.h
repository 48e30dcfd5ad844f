// SPDX-License-Identifier: Apache-2.0
// Reading files that somebody named. A path may lead to anything: a folder, a device without an end, a pipe that nobody
// writes to, a file of more bytes than there is memory. Nothing here throws, waits forever or allocates a size
// that it has not checked. Every error names the path.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "krafla/status.h"

namespace krafla {

// A regular file, open for reading; closes itself.
class InputFile {
 public:
  // NOT_FOUND, PERMISSION_DENIED, or INVALID_ARGUMENT for what is not a regular file.
  static Result<InputFile> Open(const std::string& path);

  InputFile(InputFile&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_) {}
  InputFile& operator=(InputFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(descriptor_, other.descriptor_);
    size_ = other.size_;
    return *this;
  }
  ~InputFile();

  // Bytes, when it was opened.
  int64_t size() const { return size_; }
  // All of `to`, from byte `offset`. DATA_LOSS where the file ends before.
  Result<> ReadAt(int64_t offset, void* to, std::size_t bytes) const;
  // The descriptor, for who closes it.
  int Release() { return std::exchange(descriptor_, -1); }

 private:
  InputFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  // A pipe has no size: -1.
  static Result<InputFile> OpenFileOrPipe(const std::string& path, bool takes_pipe);
  friend Result<std::string> ReadFile(const std::string& path);
  friend class MappedFile;

  std::string path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

// All of a regular file, or of a pipe that somebody writes to (a shell's <(..)). RESOURCE_EXHAUSTED for more than the
// host has memory for.
Result<std::string> ReadFile(const std::string& path);
// A regular file in memory, read as it is looked at. Whoever cuts it short meanwhile ends the process that looks there
// (SIGBUS), as with every mapping.
class MappedFile {
 public:
  static Result<MappedFile> Open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedFile();
  std::string_view bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::string_view bytes) : bytes_(bytes) {}
  std::string_view bytes_;
};
// Has `write` write a file beside its place, which takes the place of `path` when it is whole: what was there stays if
// that fails. A device, a pipe or a link is not to be replaced by a file: it is written to. `write` gets the path to
// write to; its errors are returned, and DATA_LOSS where the whole file cannot take its place.
Result<> WriteWholeFile(const std::string& path, const std::function<Result<>(const std::string& to)>& write);
// The folder that a file lies in: "." for a name alone.
std::string FolderOf(const std::string& path);
// All of standard input.
Result<std::string> ReadStandardInput();

}  // namespace krafla
