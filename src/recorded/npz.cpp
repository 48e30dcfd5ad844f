// SPDX-License-Identifier: Apache-2.0
#include "recorded/npz.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "base/host_memory.h"
#include "recorded/npy_file.h"
#include "recorded/npy_header.h"
#include "recorded/zip_archive.h"
#include "recorded/zip_file.h"

namespace krafla {
namespace {

// An entry, open behind its header.
struct OpenEntry {
  ZipArchive::Reader file;
  NpyHeader header;
};

Result<OpenEntry> OpenArray(const ZipArchive& archive, const ZipArchive::Entry& entry, std::string_view name) {
  OpenEntry out{ZipArchive::Reader(archive, entry), {}};
  if (entry.size < kNpyPreambleV2) return DataLoss("Array '{}' of {} bytes is too short for one.", name, entry.size);
  std::array<std::byte, kNpyPreambleV2> preamble;
  KRAFLA_TRY(out.file.Read(preamble));
  KRAFLA_ASSIGN(NpyLength length, ReadNpyLength(preamble));
  std::string dictionary(length.length, '\0');
  // In version 1 two bytes of the dictionary are already here.
  std::size_t have = std::min(kNpyPreambleV2 - length.begin, dictionary.size());
  std::memcpy(dictionary.data(), preamble.data() + length.begin, have);
  KRAFLA_TRY(out.file.Read(std::as_writable_bytes(std::span(dictionary)).subspan(have)));
  KRAFLA_ASSIGN(out.header, ReadNpyDictionary(dictionary));
  const Shape& shape = out.header.shape;
  const uint64_t data_size = entry.size - std::min<uint64_t>(entry.size, length.begin + length.length);
  if (static_cast<uint64_t>(shape.byte_size()) != data_size)
    return DataLoss("Array '{}' is {}, which takes {} bytes, but it has {}.", name, shape.ToString(false),
                    shape.byte_size(), data_size);
  return out;
}

}  // namespace

struct NpzArchive::File {
  ZipArchive archive;
  std::vector<std::size_t> places;  // of the arrays, among its entries
};

NpzArchive::NpzArchive(std::string path, std::unique_ptr<File> file) : path_(std::move(path)), file_(std::move(file)) {}
NpzArchive::NpzArchive(NpzArchive&&) noexcept = default;
NpzArchive& NpzArchive::operator=(NpzArchive&&) noexcept = default;
NpzArchive::~NpzArchive() = default;

Result<NpzArchive> NpzArchive::Open(const std::string& path) {
  KRAFLA_ASSIGN(ZipArchive archive, ZipArchive::Open(path));
  NpzArchive out(path, std::make_unique<File>(std::move(archive)));
  const std::vector<ZipArchive::Entry>& entries = out.file_->archive.entries();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    std::string name = entries[i].name;
    if (!name.ends_with(".npy")) continue;
    name.resize(name.size() - 4);
    auto entry = OpenArray(out.file_->archive, entries[i], name);
    if (!entry) return Failure(std::move(entry).error().WithContext(Format("while reading '{}'", path)));
    out.arrays_.push_back({std::move(name), std::move(entry->header.shape)});
    out.file_->places.push_back(i);
  }
  return out;
}

Result<Literal> NpzArchive::Read(std::size_t number) {
  if (number >= arrays_.size()) return OutOfRange("'{}' has {} arrays, not {}.", path_, arrays_.size(), number + 1);
  const ZipArchive::Entry& in_archive = file_->archive.entries()[file_->places[number]];
  auto read = [&]() -> Result<Literal> {
    KRAFLA_ASSIGN(OpenEntry entry, OpenArray(file_->archive, in_archive, arrays_[number].name));
    KRAFLA_ASSIGN(Literal out, Literal::CreateUninitialized(entry.header.shape));
    KRAFLA_TRY(entry.file.Read(out.bytes()));
    KRAFLA_TRY(entry.file.Finish());
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
