// SPDX-License-Identifier: Apache-2.0
#include "recorded/npz.h"

#include <zip.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "base/file.h"
#include "base/host_memory.h"
#include "base/system.h"
#include "recorded/npy_file.h"
#include "recorded/npy_header.h"
#include "recorded/zip_file.h"

namespace krafla {
namespace {

struct CloseArchive {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct CloseEntry {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
using Archive = std::unique_ptr<zip_t, CloseArchive>;
using Entry = std::unique_ptr<zip_file_t, CloseEntry>;

std::string ErrorText(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string out = zip_error_strerror(&error);
  zip_error_fini(&error);
  return out;
}

Result<> ReadExactly(zip_file_t* file, std::span<std::byte> to, std::string_view name) {
  while (!to.empty()) {
    zip_int64_t got = zip_fread(file, to.data(), to.size());
    if (got <= 0)
      return DataLoss("Array '{}' cannot be read to its end: {}.", name,
                      got < 0 ? zip_error_strerror(zip_file_get_error(file)) : "the archive ends too early");
    to = to.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

// An entry, open behind its header.
struct OpenEntry {
  Entry file;
  NpyHeader header;
};

Result<OpenEntry> OpenArray(zip_t* archive, zip_uint64_t index, const zip_stat_t& stat, std::string_view name) {
  OpenEntry out{Entry(zip_fopen_index(archive, index, 0)), {}};
  if (!out.file) return DataLoss("Array '{}' cannot be opened: {}.", name, zip_strerror(archive));
  // What an entry may ask for: its own size, and no more than deflate could have packed into its bytes.
  const uint64_t believable = stat.comp_method == ZIP_CM_STORE ? stat.comp_size : stat.comp_size * 1040 + 1024;
  if (stat.size > believable || stat.size < kNpyPreambleV2)
    return DataLoss("Array '{}' claims to hold {} bytes in {} compressed ones.", name, stat.size, stat.comp_size);
  std::array<std::byte, kNpyPreambleV2> preamble;
  KRAFLA_TRY(ReadExactly(out.file.get(), preamble, name));
  KRAFLA_ASSIGN(NpyLength length, ReadNpyLength(preamble));
  std::string dictionary(length.length, '\0');
  // In version 1 two bytes of the dictionary are already here.
  std::size_t have = std::min(kNpyPreambleV2 - length.begin, dictionary.size());
  std::memcpy(dictionary.data(), preamble.data() + length.begin, have);
  KRAFLA_TRY(ReadExactly(out.file.get(), std::as_writable_bytes(std::span(dictionary)).subspan(have), name));
  KRAFLA_ASSIGN(out.header, ReadNpyDictionary(dictionary));
  const Shape& shape = out.header.shape;
  const uint64_t data_size = stat.size - std::min<uint64_t>(stat.size, length.begin + length.length);
  if (static_cast<uint64_t>(shape.byte_size()) != data_size)
    return DataLoss("Array '{}' is {}, which takes {} bytes, but it has {}.", name, shape.ToString(false),
                    shape.byte_size(), data_size);
  return out;
}

}  // namespace

struct NpzArchive::File {
  struct Place {
    zip_uint64_t index;
    zip_stat_t stat;
  };
  Archive archive;
  std::vector<Place> places;  // of the arrays
};

NpzArchive::NpzArchive(std::string path, std::unique_ptr<File> file) : path_(std::move(path)), file_(std::move(file)) {}
NpzArchive::NpzArchive(NpzArchive&&) noexcept = default;
NpzArchive& NpzArchive::operator=(NpzArchive&&) noexcept = default;
NpzArchive::~NpzArchive() = default;

Result<NpzArchive> NpzArchive::Open(const std::string& path) {
  KRAFLA_ASSIGN(InputFile opened, InputFile::Open(path));
  int code = 0;
  const int descriptor = opened.Release();
  NpzArchive out(path, std::make_unique<File>());
  zip_t* const archive = zip_fdopen(descriptor, 0, &code);  // closes the descriptor, unless it fails
  if (archive == nullptr) {
    os::CloseFile(descriptor);
    return InvalidArgument("'{}' cannot be opened as an npz archive: {}.", path, ErrorText(code));
  }
  out.file_->archive.reset(archive);
  const zip_int64_t count = zip_get_num_entries(archive, 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    File::Place place{static_cast<zip_uint64_t>(i), {}};
    const zip_stat_t& stat = place.stat;
    if (zip_stat_index(archive, place.index, 0, &place.stat) != 0 ||
        (stat.valid & (ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD)) !=
            (ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD))
      return DataLoss("Entry {} of '{}' has no sizes: {}.", i, path, zip_strerror(archive));
    std::string name = stat.name;
    if (!name.ends_with(".npy")) continue;
    name.resize(name.size() - 4);
    auto entry = OpenArray(archive, place.index, stat, name);
    if (!entry) return Failure(std::move(entry).error().WithContext(Format("while reading '{}'", path)));
    out.arrays_.push_back({std::move(name), std::move(entry->header.shape)});
    out.file_->places.push_back(place);
  }
  return out;
}

Result<Literal> NpzArchive::Read(std::size_t number) {
  if (number >= arrays_.size()) return OutOfRange("'{}' has {} arrays, not {}.", path_, arrays_.size(), number + 1);
  const auto& [index, stat] = file_->places[number];
  const std::string& name = arrays_[number].name;
  auto read = [&]() -> Result<Literal> {
    KRAFLA_ASSIGN(OpenEntry entry, OpenArray(file_->archive.get(), index, stat, name));
    KRAFLA_ASSIGN(Literal out, Literal::CreateUninitialized(entry.header.shape));
    KRAFLA_TRY(ReadExactly(entry.file.get(), out.bytes(), name));
    // One byte more, or its absence, makes libzip compare the checksum.
    std::byte more;
    if (zip_fread(entry.file.get(), &more, 1) != 0)
      return DataLoss("Array '{}' is damaged: {}.", name, zip_error_strerror(zip_file_get_error(entry.file.get())));
    return FromStoredOrder(entry.header, std::move(out));
  };
  Result<Literal> out = read();
  if (!out) return Failure(std::move(out).error().WithContext(Format("while reading '{}'", path_)));
  return out;
}

Result<std::vector<NamedLiteral>> ReadNpz(const std::string& path) {
  KRAFLA_ASSIGN(NpzArchive archive, NpzArchive::Open(path));
  uint64_t bytes = 0;
  for (const NpzArchive::Array& array : archive.arrays()) {
    const auto more = static_cast<uint64_t>(array.shape.byte_size());
    if (more > UINT64_MAX - bytes || !HostHasRoom(bytes + more))
      return ResourceExhausted("The arrays of '{}' need more memory than the host has left.", path);
    bytes += more;
  }
  std::vector<NamedLiteral> out;
  for (std::size_t i = 0; i < archive.arrays().size(); ++i) {
    KRAFLA_ASSIGN(Literal literal, archive.Read(i));
    out.push_back({archive.arrays()[i].name, std::move(literal)});
  }
  return out;
}

Result<> WriteNpz(const std::string& path, const std::vector<NamedLiteral>& arrays) {
  std::vector<std::string> headers;
  headers.reserve(arrays.size());
  std::vector<ZipEntry> entries;
  for (const NamedLiteral& array : arrays) {
    KRAFLA_ASSIGN(std::string header, MakeNpyHeader(array.literal.shape()));
    headers.push_back(std::move(header));
    entries.push_back({array.name + ".npy", headers.back(), array.literal.bytes()});
  }
  return WriteZip(path, entries);
}

bool CanStandFor(const Shape& have, const Shape& shape) {
  if (!have.IsArray() || !shape.IsArray() || have.rank() != shape.rank()) return false;
  // A bounded dimension takes any size up to its bound.
  for (int64_t i = 0; i < shape.rank(); ++i)
    if (shape.IsDynamicDim(i) ? have.dim(i) > shape.dim(i) : have.dim(i) != shape.dim(i)) return false;
  const ElementType from = have.element_type(), to = shape.element_type();
  const bool stand_in = (from == ElementType::kU16 && to == ElementType::kBF16) ||
                        (from == ElementType::kU8 && StorageBytes(to) == 1 && !IsSigned(to)) ||
                        ((from == ElementType::kS8 || from == ElementType::kU8) && IsSigned(to) &&
                         StorageBytes(to) == 1 && BitWidth(to) < 8);
  return from == to || stand_in;
}

Result<Literal> AdoptShape(Literal literal, const Shape& shape) {
  const Shape& have = literal.shape();
  if (!CanStandFor(have, shape))
    return InvalidArgument("Expected {}, got {}.", shape.ToString(false), have.ToString(false));
  const ElementType from = have.element_type(), to = shape.element_type();
  if (from != to) {
    // Bytes that the narrower type does not have would be found by nobody later.
    const int bits = to == ElementType::kPred ? 1 : BitWidth(to);
    if (bits < 8) {
      const int low = IsSigned(to) ? -(1 << (bits - 1)) : 0;
      const int high = IsSigned(to) ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
      for (uint8_t b : literal.data<uint8_t>()) {
        int value = IsSigned(to) ? static_cast<int8_t>(b) : b;
        if (value < low || value > high)
          return InvalidArgument("An array of {} holds {}, which is not a value of {}.", have.ToString(false), value,
                                 ElementTypeName(to));
      }
    }
  }
  Shape adopted = shape;
  if (shape.IsDynamic()) { KRAFLA_ASSIGN(adopted, Shape::MakeArray(to, have.dims())); }
  return std::move(literal).Reshaped(adopted);
}

}  // namespace krafla
