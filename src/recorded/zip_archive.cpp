// SPDX-License-Identifier: Apache-2.0
#include "recorded/zip_archive.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/host_memory.h"
#include "recorded/zip_format.h"

namespace krafla {
namespace {

using zip::Number;

// A comment of at most 65535 bytes may follow the last record.
constexpr uint64_t kLongestTail = zip::kEndOfDirectoryBytes + 0xffff;
// The most that deflate packs into a byte is a little over 1030 (zlib's technical details).
constexpr uint64_t kMostOfAByte = 1040;

Result<std::string> ReadBytes(const InputFile& file, uint64_t offset, uint64_t bytes) {
  const auto size = static_cast<uint64_t>(file.size());
  if (offset > size || bytes > size - offset) return DataLoss("The archive ends before a record that it speaks of.");
  if (!HostHasRoom(bytes)) return ResourceExhausted("The archive's directory of {} bytes fits no memory.", bytes);
  std::string out(static_cast<std::size_t>(bytes), '\0');
  KRAFLA_TRY(file.ReadAt(static_cast<int64_t>(offset), out.data(), out.size()));
  return out;
}

struct Directory {
  uint64_t entries = 0, bytes = 0, offset = 0;
};

// What the 64-bit record says, which a locator in front of the last record points at.
Result<Directory> FindDirectory64(const InputFile& file, uint64_t end) {
  if (end < zip::kEndOfDirectory64LocatorBytes) return DataLoss("The archive's directory has no 64-bit record.");
  KRAFLA_ASSIGN(const std::string locator,
                ReadBytes(file, end - zip::kEndOfDirectory64LocatorBytes, zip::kEndOfDirectory64LocatorBytes));
  if (Number<uint32_t>(locator, 0) != zip::kEndOfDirectory64Locator)
    return DataLoss("The archive's directory has no 64-bit record.");
  KRAFLA_ASSIGN(const std::string record, ReadBytes(file, Number<uint64_t>(locator, 8), zip::kEndOfDirectory64Bytes));
  if (Number<uint32_t>(record, 0) != zip::kEndOfDirectory64)
    return DataLoss("The archive's 64-bit record is not where it should be.");
  return Directory{Number<uint64_t>(record, 32), Number<uint64_t>(record, 40), Number<uint64_t>(record, 48)};
}

Result<Directory> FindDirectory(const InputFile& file) {
  const auto size = static_cast<uint64_t>(file.size());
  const uint64_t tail_bytes = std::min(size, kLongestTail);
  KRAFLA_ASSIGN(const std::string tail, ReadBytes(file, size - tail_bytes, tail_bytes));
  for (std::size_t at = tail.size() - std::min(tail.size(), zip::kEndOfDirectoryBytes) + 1; at-- > 0;) {
    if (tail.size() - at < zip::kEndOfDirectoryBytes || Number<uint32_t>(tail, at) != zip::kEndOfDirectory) continue;
    const std::string_view record = std::string_view(tail).substr(at, zip::kEndOfDirectoryBytes);
    if (Number<uint16_t>(record, 20) != tail.size() - at - zip::kEndOfDirectoryBytes) continue;  // of the comment
    const Directory out{Number<uint16_t>(record, 10), Number<uint32_t>(record, 12), Number<uint32_t>(record, 16)};
    if (out.entries == zip::kElsewhere16 || out.bytes == zip::kElsewhere32 || out.offset == zip::kElsewhere32)
      return FindDirectory64(file, size - tail_bytes + at);
    return out;
  }
  return InvalidArgument("It has no directory of a zip archive.");
}

// The numbers that 32 bits of an entry do not hold, in this order, as far as they are elsewhere.
struct WideSizes {
  uint64_t size, packed_size, offset;
};
Result<WideSizes> FindWideSizes(std::string_view record, std::string_view extra) {
  WideSizes out{Number<uint32_t>(record, 24), Number<uint32_t>(record, 20), Number<uint32_t>(record, 42)};
  std::array wanted = {&out.size, &out.packed_size, &out.offset};
  if (std::ranges::none_of(wanted, [](const uint64_t* n) { return *n == zip::kElsewhere32; })) return out;
  while (extra.size() >= 4) {
    const auto id = Number<uint16_t>(extra, 0);
    std::string_view field = extra.substr(4, Number<uint16_t>(extra, 2));
    extra.remove_prefix(4 + field.size());
    if (id != zip::kWideSizes) continue;
    for (uint64_t* number : wanted) {
      if (*number != zip::kElsewhere32) continue;
      if (field.size() < sizeof(uint64_t)) break;
      *number = Number<uint64_t>(field, 0);
      field.remove_prefix(sizeof(uint64_t));
    }
    return out;
  }
  return out;  // Python's zipfile takes it so, too: a file of exactly that many bytes
}

}  // namespace

Result<ZipArchive> ZipArchive::Open(const std::string& path) {
  KRAFLA_ASSIGN(InputFile file, InputFile::Open(path));
  ZipArchive out(std::move(file));
  if (Result<> read = out.ReadDirectory(); !read)
    return Failure(std::move(read).error().WithContext(Format("while reading '{}'", path)));
  return out;
}

Result<> ZipArchive::ReadDirectory() {
  KRAFLA_ASSIGN(const Directory directory, FindDirectory(file_));
  KRAFLA_ASSIGN(const std::string bytes, ReadBytes(file_, directory.offset, directory.bytes));
  std::string_view left = bytes;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    if (left.size() < zip::kDirectoryEntryBytes || Number<uint32_t>(left, 0) != zip::kDirectoryEntry)
      return DataLoss("The archive's directory names {} files and holds {}.", directory.entries, i);
    const std::string_view record = left.substr(0, zip::kDirectoryEntryBytes);
    const std::size_t name = Number<uint16_t>(record, 28), extra = Number<uint16_t>(record, 30);
    const std::size_t all = zip::kDirectoryEntryBytes + name + extra + Number<uint16_t>(record, 32);
    if (left.size() < all) return DataLoss("The archive's directory ends within its entry {}.", i);
    KRAFLA_TRY(AddEntry(record, left.substr(zip::kDirectoryEntryBytes, name),
                        left.substr(zip::kDirectoryEntryBytes + name, extra)));
    left.remove_prefix(all);
  }
  return {};
}

Result<> ZipArchive::AddEntry(std::string_view record, std::string_view name, std::string_view extra) {
  const auto flags = Number<uint16_t>(record, 8), method = Number<uint16_t>(record, 10);
  if (flags & zip::kEncrypted) return Unimplemented("File '{}' of the archive is encrypted.", name);
  if (method != zip::kStored && method != zip::kDeflated)
    return Unimplemented("File '{}' of the archive is packed by method {}; stored (0) and deflated (8) can be read.",
                         name, method);
  KRAFLA_ASSIGN(const WideSizes sizes, FindWideSizes(record, extra));
  KRAFLA_ASSIGN(const std::string header, ReadBytes(file_, sizes.offset, zip::kLocalHeaderBytes));
  if (Number<uint32_t>(header, 0) != zip::kLocalHeader)
    return DataLoss("File '{}' of the archive is not where its directory says.", name);
  Entry out{std::string(name),
            sizes.size,
            sizes.packed_size,
            Number<uint32_t>(record, 16),
            method == zip::kDeflated,
            sizes.offset + zip::kLocalHeaderBytes + Number<uint16_t>(header, 26) + Number<uint16_t>(header, 28)};
  const auto archive = static_cast<uint64_t>(file_.size());
  if (out.offset > archive || out.packed_size > archive - out.offset)
    return DataLoss("File '{}' claims {} bytes of the archive, which ends before.", name, out.packed_size);
  if (out.is_deflated ? out.size / kMostOfAByte > out.packed_size : out.size != out.packed_size)
    return DataLoss("File '{}' claims to hold {} bytes in {} packed ones.", name, out.size, out.packed_size);
  entries_.push_back(std::move(out));
  return {};
}

struct ZipArchive::Reader::Inflater {
  z_stream stream = {};
  std::array<Bytef, 1 << 16> packed;
  bool is_ready = false, at_end = false;

  Inflater() { is_ready = inflateInit2(&stream, -MAX_WBITS) == Z_OK; }  // without zlib's own header
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() {
    if (is_ready) inflateEnd(&stream);
  }
};

ZipArchive::Reader::Reader(const ZipArchive& archive, const Entry& entry)
    : file_(archive.file_), entry_(entry), packed_left_(entry.packed_size), at_(entry.offset) {
  if (entry.is_deflated) inflater_ = std::make_unique<Inflater>();
}
ZipArchive::Reader::Reader(Reader&&) noexcept = default;
ZipArchive::Reader::~Reader() = default;

Result<> ZipArchive::Reader::Read(std::span<std::byte> to) {
  if (to.size() > entry_.size - unpacked_)
    return DataLoss("File '{}' of the archive has {} bytes, and more were expected.", entry_.name, entry_.size);
  if (inflater_) {
    KRAFLA_TRY(Unpack(to));
  } else {
    KRAFLA_TRY(file_.ReadAt(static_cast<int64_t>(at_), to.data(), to.size()));
    at_ += to.size();
  }
  unpacked_ += to.size();
  checksum_ = zip::Checksum(checksum_, to);
  return {};
}

Result<> ZipArchive::Reader::Unpack(std::span<std::byte> to) {
  if (!inflater_->is_ready) return ResourceExhausted("There is no memory to unpack '{}'.", entry_.name);
  z_stream& stream = inflater_->stream;
  while (!to.empty()) {
    if (stream.avail_in == 0 && packed_left_ > 0) {
      const auto bytes = std::min<uint64_t>(packed_left_, inflater_->packed.size());
      KRAFLA_TRY(file_.ReadAt(static_cast<int64_t>(at_), inflater_->packed.data(), static_cast<std::size_t>(bytes)));
      stream.next_in = inflater_->packed.data();
      stream.avail_in = static_cast<uInt>(bytes);
      at_ += bytes;
      packed_left_ -= bytes;
    }
    const auto room = static_cast<uInt>(std::min<std::size_t>(to.size(), 1 << 30));  // zlib counts in 32 bits
    stream.next_out = reinterpret_cast<Bytef*>(to.data());
    stream.avail_out = room;
    const int code = inflater_->at_end ? Z_STREAM_END : inflate(&stream, Z_NO_FLUSH);
    inflater_->at_end = code == Z_STREAM_END;
    const std::size_t got = room - stream.avail_out;
    to = to.subspan(got);
    // Nothing came, and nothing more will.
    const bool is_stuck = got == 0 && (inflater_->at_end || stream.avail_in > 0 || packed_left_ == 0);
    if ((code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) || is_stuck)
      return DataLoss("File '{}' of the archive is damaged: {}.", entry_.name,
                      stream.msg ? stream.msg : "its packed bytes end too early");
  }
  return {};
}

Result<> ZipArchive::Reader::Finish() {
  if (unpacked_ != entry_.size)
    return DataLoss("File '{}' of the archive has {} bytes, of which {} are used.", entry_.name, entry_.size,
                    unpacked_);
  if (checksum_ != entry_.checksum)
    return DataLoss("File '{}' of the archive is damaged: its checksum is {:08x}, not {:08x}.", entry_.name, checksum_,
                    entry_.checksum);
  return {};
}

}  // namespace krafla
