// SPDX-License-Identifier: Apache-2.0
// Reading archives of files (PKWARE's APPNOTE 6.3): stored and deflated ones, of any size, unencrypted, in one piece.
// Whatever an archive says of itself is checked against the bytes that it has before anything is allocated or read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "krafla/status.h"

namespace krafla {

class ZipArchive {
 public:
  struct Entry {
    std::string name;
    uint64_t size = 0;         // bytes, unpacked: a claim, but no more than deflate could have packed
    uint64_t packed_size = 0;  // bytes in the archive, which has them
    uint32_t checksum = 0;     // CRC-32 of the unpacked bytes
    bool is_deflated = false;
    uint64_t offset = 0;  // of its bytes in the archive
  };

  // INVALID_ARGUMENT for what is not an archive, DATA_LOSS for a damaged one, UNIMPLEMENTED for other methods of
  // packing than those above.
  static Result<ZipArchive> Open(const std::string& path);

  // In the order of the archive's directory.
  const std::vector<Entry>& entries() const { return entries_; }

  // One file, from its front to its end. The archive outlives it.
  class Reader {
   public:
    Reader(const ZipArchive& archive, const Entry& entry);
    Reader(Reader&&) noexcept;
    ~Reader();
    // All of `to`. DATA_LOSS where the file ends before.
    Result<> Read(std::span<std::byte> to);
    // After all bytes were read: that there are no more, and that the checksum is right.
    Result<> Finish();

   private:
    struct Inflater;
    Result<> Unpack(std::span<std::byte> to);

    const InputFile& file_;
    const Entry& entry_;
    uint64_t packed_left_, at_;
    uint64_t unpacked_ = 0;
    uint32_t checksum_ = 0;
    std::unique_ptr<Inflater> inflater_;
  };

 private:
  explicit ZipArchive(InputFile file) : file_(std::move(file)) {}
  Result<> ReadDirectory();
  Result<> AddEntry(std::string_view record, std::string_view name, std::string_view extra);

  InputFile file_;
  std::vector<Entry> entries_;
};

}  // namespace krafla
