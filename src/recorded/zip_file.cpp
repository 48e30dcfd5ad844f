// SPDX-License-Identifier: Apache-2.0
#include "recorded/zip_file.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>

#include "base/file.h"
#include "base/system.h"
#include "recorded/zip_format.h"

namespace krafla {
namespace {

using zip::Append;

constexpr uint16_t kVersion = 20, kVersionOfWideSizes = 45;  // of the format, which a reader needs
constexpr uint16_t kFirstDay = 0x21;                         // 1980-01-01, so that equal files make equal archives

uint32_t Narrow(uint64_t number) {
  return number < zip::kElsewhere32 ? static_cast<uint32_t>(number) : zip::kElsewhere32;
}
bool IsWide(uint64_t number) { return number >= zip::kElsewhere32; }

std::span<const std::byte> AsBytes(std::string_view text) { return std::as_bytes(std::span(text)); }

// Raw deflate of both parts, one behind the other.
std::optional<std::string> Deflate(const ZipEntry& entry) {
  z_stream stream = {};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return std::nullopt;
  std::string out;
  int code = Z_OK;
  for (std::span<const std::byte> part : {AsBytes(entry.head), entry.rest}) {
    const bool is_last = part.data() == entry.rest.data() && part.size() == entry.rest.size();
    do {
      const std::size_t piece = std::min<std::size_t>(part.size(), 1 << 30);  // zlib counts in 32 bits
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(part.data()));
      stream.avail_in = static_cast<uInt>(piece);
      part = part.subspan(piece);
      const int flush = is_last && part.empty() ? Z_FINISH : Z_NO_FLUSH;
      do {
        const std::size_t have = out.size();
        out.resize(have + (1 << 16));
        stream.next_out = reinterpret_cast<Bytef*>(out.data() + have);
        stream.avail_out = 1 << 16;
        code = deflate(&stream, flush);
        out.resize(out.size() - stream.avail_out);
      } while (stream.avail_out == 0);
    } while (!part.empty());
  }
  deflateEnd(&stream);
  if (code != Z_STREAM_END) return std::nullopt;
  return out;
}

struct Written {
  uint64_t size = 0, packed_size = 0, offset = 0;
  uint32_t checksum = 0;
  uint16_t method = zip::kStored;
};

// What the header of a file and its entry in the directory have in common.
void AppendFacts(std::string& record, const ZipEntry& entry, const Written& written, std::size_t extra) {
  const bool is_wide = extra > 0;
  Append<uint16_t>(record, is_wide ? kVersionOfWideSizes : kVersion);
  Append<uint16_t>(record, zip::kUtf8Name);
  Append<uint16_t>(record, written.method);
  Append<uint16_t>(record, 0);  // midnight
  Append<uint16_t>(record, kFirstDay);
  Append<uint32_t>(record, written.checksum);
  Append<uint32_t>(record, is_wide ? zip::kElsewhere32 : static_cast<uint32_t>(written.packed_size));
  Append<uint32_t>(record, is_wide ? zip::kElsewhere32 : static_cast<uint32_t>(written.size));
  Append<uint16_t>(record, static_cast<uint16_t>(entry.name.size()));
  Append<uint16_t>(record, static_cast<uint16_t>(extra));
}

// All three numbers where one is wide: an entry of the directory may have them so.
std::string WideSizesField(const Written& written, bool with_offset) {
  std::string out;
  if (!IsWide(written.size) && !IsWide(written.packed_size) && !(with_offset && IsWide(written.offset))) return out;
  Append<uint16_t>(out, zip::kWideSizes);
  Append<uint16_t>(out, with_offset ? 24 : 16);
  Append<uint64_t>(out, written.size);
  Append<uint64_t>(out, written.packed_size);
  if (with_offset) Append<uint64_t>(out, written.offset);
  return out;
}

std::string DirectoryEntry(const ZipEntry& entry, const Written& written) {
  const std::string extra = WideSizesField(written, true);
  std::string out;
  Append<uint32_t>(out, zip::kDirectoryEntry);
  Append<uint16_t>(out, kVersionOfWideSizes);  // of the writer
  AppendFacts(out, entry, written, extra.size());
  Append<uint16_t>(out, 0);  // comment
  Append<uint16_t>(out, 0);  // disk
  Append<uint16_t>(out, 0);  // attributes, the writer's
  Append<uint32_t>(out, 0);  // and the system's
  Append<uint32_t>(out, extra.empty() ? static_cast<uint32_t>(written.offset) : zip::kElsewhere32);
  return out + entry.name + extra;
}

std::string EndOfDirectory(uint64_t entries, uint64_t bytes, uint64_t offset) {
  std::string out;
  const bool is_wide = entries >= zip::kElsewhere16 || IsWide(bytes) || IsWide(offset);
  if (is_wide) {
    Append<uint32_t>(out, zip::kEndOfDirectory64);
    Append<uint64_t>(out, zip::kEndOfDirectory64Bytes - 12);  // without this number and what is before it
    Append<uint16_t>(out, kVersionOfWideSizes);
    Append<uint16_t>(out, kVersionOfWideSizes);
    Append<uint32_t>(out, 0);  // disks
    Append<uint32_t>(out, 0);
    for (uint64_t number : {entries, entries, bytes, offset}) Append<uint64_t>(out, number);
    Append<uint32_t>(out, zip::kEndOfDirectory64Locator);
    Append<uint32_t>(out, 0);
    Append<uint64_t>(out, offset + bytes);
    Append<uint32_t>(out, 1);
  }
  const auto count = static_cast<uint16_t>(std::min<uint64_t>(entries, zip::kElsewhere16));
  Append<uint32_t>(out, zip::kEndOfDirectory);
  Append<uint32_t>(out, 0);  // disks
  Append<uint16_t>(out, count);
  Append<uint16_t>(out, count);
  Append<uint32_t>(out, Narrow(bytes));
  Append<uint32_t>(out, Narrow(offset));
  Append<uint16_t>(out, 0);  // comment
  return out;
}

class ZipWriter {
 public:
  explicit ZipWriter(const std::string& path) : out_(path, std::ios::binary | std::ios::trunc) {}

  Result<> Add(const ZipEntry& entry) {
    if (entry.name.size() >= zip::kElsewhere16)
      return InvalidArgument("A name of {} bytes is too long for an archive.", entry.name.size());
    Written written{entry.head.size() + entry.rest.size(), 0, offset_, 0, zip::kStored};
    for (std::span<const std::byte> part : {AsBytes(entry.head), entry.rest})
      written.checksum = zip::Checksum(written.checksum, part);
    std::optional<std::string> packed;
    if (entry.is_compressed) {
      packed = Deflate(entry);
      if (!packed) return ResourceExhausted("There is no memory to pack '{}'.", entry.name);
      written.method = zip::kDeflated;
    }
    written.packed_size = packed ? packed->size() : written.size;
    const std::string extra = WideSizesField(written, false);
    std::string header;
    Append<uint32_t>(header, zip::kLocalHeader);
    AppendFacts(header, entry, written, extra.size());
    Write(header + entry.name + extra);
    if (packed) {
      Write(*packed);
    } else {
      Write(entry.head);
      Write({reinterpret_cast<const char*>(entry.rest.data()), entry.rest.size()});
    }
    directory_ += DirectoryEntry(entry, written);
    ++entries_;
    return {};
  }
  // Whether all of it was written.
  bool Finish() {
    const uint64_t offset = offset_;
    Write(directory_);
    Write(EndOfDirectory(entries_, directory_.size(), offset));
    out_.close();
    return out_.good();
  }

 private:
  void Write(std::string_view bytes) {
    out_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    offset_ += bytes.size();
  }

  std::ofstream out_;
  std::string directory_;
  uint64_t offset_ = 0, entries_ = 0;
};

}  // namespace

Result<> WriteZip(const std::string& path, std::span<const ZipEntry> entries) {
  return WriteWholeFile(path, [&](const std::string& to) -> Result<> {
    ZipWriter writer(to);
    for (const ZipEntry& entry : entries) KRAFLA_TRY(writer.Add(entry));
    if (!writer.Finish()) return DataLoss("'{}' cannot be written: {}.", path, std::strerror(errno));
    return {};
  });
}

}  // namespace krafla
