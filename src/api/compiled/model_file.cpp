// SPDX-License-Identifier: Apache-2.0
#include "api/compiled/model_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>

namespace krafla::compiled {
namespace {

// Little endian, as every machine that krafla runs on.
struct Header {
  char magic[8];
  uint32_t version;
  uint32_t section_count;
  uint64_t file_bytes;
  uint64_t checksum;  // of the table and of all sections but the weights
  uint64_t reserved[4];
};
static_assert(sizeof(Header) == 64);

struct TableEntry {
  uint32_t kind;
  uint32_t reserved;
  uint64_t offset;
  uint64_t bytes;
};
static_assert(sizeof(TableEntry) == 24);

// More than any file has: programs for each back end, and three.
constexpr uint32_t kMostSections = 64;

// Of a program without its weights: it is read whole.
constexpr uint64_t kMostProgramBytes = uint64_t{1} << 30;

constexpr uint64_t RoundUpTo(uint64_t value, uint64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// XXH3, which finds damage and is no protection against who wants it. Of the table and of all sections but weights.
class Checksum {
 public:
  Checksum() { XXH3_64bits_reset(&state_); }
  void Add(std::string_view bytes) { XXH3_64bits_update(&state_, bytes.data(), bytes.size()); }
  uint64_t Get() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

template <typename T>
T LoadAt(std::string_view bytes, std::size_t offset) {
  T out;
  std::memcpy(&out, bytes.data() + offset, sizeof(T));
  return out;
}

template <typename T>
std::string_view BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

}  // namespace

Result<std::vector<Section>> ReadSections(std::string_view bytes, std::string_view name) {
  const auto damaged = [&](std::string_view what) {
    return DataLoss("'{}' is damaged: {}. Copy it again, or compile the model again.", name, what);
  };
  if (bytes.size() < sizeof(Header) || !bytes.starts_with(kMagic))
    return damaged("it has no header of a compiled model");
  const auto header = LoadAt<Header>(bytes, 0);
  if (header.version != kFormatVersion)
    return FailedPrecondition(
        "'{}' is a compiled model of format {}, and this krafla reads format {}: compile the model again with it.",
        name, header.version, kFormatVersion);
  if (header.file_bytes != bytes.size())
    return damaged(Format("it has {} bytes and should have {}", bytes.size(), header.file_bytes));
  if (std::ranges::any_of(header.reserved, [](uint64_t word) { return word != 0; }))
    return damaged("its header holds what this format has no use for");
  if (header.section_count > kMostSections || sizeof(Header) + header.section_count * sizeof(TableEntry) > bytes.size())
    return damaged(Format("its table has {} sections", header.section_count));

  std::vector<Section> out;
  Checksum checksum;
  for (uint32_t s = 0; s < header.section_count; ++s) {
    const auto entry = LoadAt<TableEntry>(bytes, sizeof(Header) + s * sizeof(TableEntry));
    if (entry.offset > bytes.size() || entry.bytes > bytes.size() - entry.offset)
      return damaged(Format("section {} reaches beyond its end", s));
    const Section section{static_cast<SectionKind>(entry.kind), bytes.substr(entry.offset, entry.bytes)};
    checksum.Add(BytesOf(entry));
    if (section.kind == SectionKind::kWeights) {
      if (entry.offset % kWeightsAlignment != 0) return damaged("its weights do not begin at a page");
    } else {
      if (entry.bytes > kMostProgramBytes) return damaged(Format("section {} has {} bytes", s, entry.bytes));
      checksum.Add(section.bytes);
    }
    out.push_back(section);
  }
  if (checksum.Get() != header.checksum) return damaged("its checksum is wrong");
  return out;
}

std::string WriteSections(std::span<const Section> sections, uint64_t weight_bytes) {
  std::vector<TableEntry> table;
  uint64_t offset = sizeof(Header) + (sections.size() + (weight_bytes > 0 ? 1 : 0)) * sizeof(TableEntry);
  for (const Section& s : sections) {
    table.push_back({static_cast<uint32_t>(s.kind), 0, offset, s.bytes.size()});
    offset += s.bytes.size();
  }
  if (weight_bytes > 0) {
    offset = RoundUpTo(offset, kWeightsAlignment);
    table.push_back({static_cast<uint32_t>(SectionKind::kWeights), 0, offset, weight_bytes});
  }
  Header header = {};
  std::ranges::copy(kMagic, header.magic);
  header.version = kFormatVersion;
  header.section_count = static_cast<uint32_t>(table.size());
  header.file_bytes = offset + weight_bytes;
  Checksum checksum;
  for (std::size_t s = 0; s < table.size(); ++s) {
    checksum.Add(BytesOf(table[s]));
    if (s < sections.size()) checksum.Add(sections[s].bytes);
  }
  header.checksum = checksum.Get();
  std::string out(BytesOf(header));
  for (const TableEntry& entry : table) out += BytesOf(entry);
  for (const Section& s : sections) out += s.bytes;
  out.resize(offset);
  return out;
}

}  // namespace krafla::compiled
