// SPDX-License-Identifier: Apache-2.0
#include "hlo_io/stablehlo_bytecode/container.h"

#include <algorithm>
#include <optional>

#include "hlo_io/stablehlo_bytecode/ir_mask.h"

namespace krafla::stablehlo {
namespace {

constexpr std::string_view kSectionNames[] = {"string",   "dialect",         "attribute and type", "offset",    "IR",
                                              "resource", "resource offset", "dialect version",    "properties"};

Failure Damaged(std::string_view what) {
  return InvalidArgument("The {} section of the bytecode is damaged or cut short.", what);
}

Dialect DialectOf(std::string_view name) {
  if (name == "vhlo") return Dialect::kVhlo;
  if (name == "builtin") return Dialect::kBuiltin;
  if (name == "sdy") return Dialect::kSdy;
  if (name == "stablehlo") return Dialect::kStablehlo;
  return Dialect::kOther;
}

Result<> ReadStrings(std::string_view section, Container& out) {
  ByteStream s(section);
  const std::size_t count = s.Count();
  std::vector<uint64_t> sizes(count);
  for (uint64_t& size : sizes) size = s.Varint();
  std::reverse(sizes.begin(), sizes.end());
  for (uint64_t size : sizes) {
    std::string_view text = s.Bytes(size);
    if (s.failed() || text.empty() || text.back() != '\0') return Damaged("string");
    out.strings.push_back(text.substr(0, text.size() - 1));
  }
  return s.failed() || !s.AtEnd() ? Result<>(Damaged("string")) : Result<>();
}

Result<std::vector<std::string_view>> ReadDialects(std::string_view section, Container& out) {
  ByteStream s(section);
  std::vector<std::string_view> dialects(s.Count());
  for (std::string_view& dialect : dialects) {
    uint64_t name = s.Varint();
    const bool versioned = out.version >= 1 && (name & 1) != 0;
    if (out.version >= 1) name >>= 1;
    if (name >= out.strings.size()) return Damaged("dialect");
    dialect = out.strings[name];
    uint8_t id = 0;
    std::string_view body;
    if (versioned && (!ReadSection(s, &id, &body) || id != kDialectVersionSection)) return Damaged("dialect");
  }
  if (out.version >= 4) s.Varint();  // the number of names, as a hint
  while (!s.failed() && !s.AtEnd()) {
    const uint64_t dialect = s.Varint();
    const std::size_t count = s.Count();
    if (dialect >= dialects.size()) return Damaged("dialect");
    for (std::size_t i = 0; i < count; ++i) {
      uint64_t name = s.Varint();
      if (out.version >= 5) name >>= 1;
      if (name >= out.strings.size()) return Damaged("dialect");
      out.op_names.push_back({DialectOf(dialects[dialect]), dialects[dialect], out.strings[name]});
    }
  }
  if (s.failed()) return Damaged("dialect");
  return dialects;
}

Result<> ReadEntries(std::string_view offsets, std::string_view data, std::span<const std::string_view> dialects,
                     Container& out) {
  ByteStream s(offsets);
  const uint64_t attributes = s.Varint(), types = s.Varint();
  if (attributes > offsets.size() || types > offsets.size()) return Damaged("offset");
  std::size_t at = 0;
  for (auto [table, count] : {std::pair(&out.attributes, attributes), std::pair(&out.types, types)}) {
    while (table->size() < count) {
      const uint64_t dialect = s.Varint();
      const std::size_t group = s.Count();
      if (s.failed() || dialect >= dialects.size() || group == 0 || group > count - table->size())
        return Damaged("offset");
      for (std::size_t i = 0; i < group; ++i) {
        const uint64_t size = s.Varint();
        if ((size >> 1) > data.size() - at) return Damaged("offset");
        table->push_back({DialectOf(dialects[dialect]), (size & 1) != 0, data.substr(at, size >> 1)});
        at += static_cast<std::size_t>(size >> 1);
      }
    }
  }
  if (s.failed() || !s.AtEnd() || at != data.size()) return Damaged("offset");
  return {};
}

}  // namespace

bool ReadSection(ByteStream& stream, uint8_t* id, std::string_view* body) {
  const uint8_t head = stream.Byte();
  const uint64_t length = stream.Varint();
  *id = head & 0x7f;
  if ((head & 0x80) != 0) {
    const uint64_t alignment = stream.Varint();
    if (!std::has_single_bit(alignment) || alignment > 4096) return false;
    // Positions are counted from the beginning of the file only at the top level, where sections may be aligned.
    while (!stream.failed() && stream.position() % alignment != 0)
      if (stream.Byte() != 0xcb) return false;
  }
  *body = stream.Bytes(length);
  return !stream.failed();
}

Result<Container> ReadContainer(std::string_view bytes) {
  Container out;
  ByteStream s(bytes);
  if (s.Bytes(4) != "ML\xefR") return InvalidArgument("The bytes do not begin as MLIR bytecode does.");
  out.version = s.Varint();
  if (s.failed() || out.version > 6)
    return Unimplemented("MLIR bytecode of format version {} is not known; this version reads up to 6.", out.version);
  const std::size_t zero = bytes.find('\0', s.position());
  if (zero == std::string_view::npos) return Damaged("producer");
  out.producer = s.Bytes(zero - s.position());
  s.Byte();
  std::optional<std::string_view> sections[kSectionCount];
  while (!s.AtEnd()) {
    uint8_t id = 0;
    std::string_view body;
    if (!ReadSection(s, &id, &body)) return InvalidArgument("The bytecode is cut short within a section.");
    if (id >= kSectionCount) return InvalidArgument("The bytecode has a section of the unknown kind {}.", id);
    if (sections[id]) return InvalidArgument("The bytecode has two {} sections.", kSectionNames[id]);
    sections[id] = body;
  }
  for (uint8_t id : {kStringSection, kDialectSection, kEntrySection, kOffsetSection, kIrSection})
    if (!sections[id]) return InvalidArgument("The bytecode has no {} section.", kSectionNames[id]);
  KRAFLA_TRY(ReadStrings(*sections[kStringSection], out));
  KRAFLA_ASSIGN(std::vector<std::string_view> dialects, ReadDialects(*sections[kDialectSection], out));
  KRAFLA_TRY(ReadEntries(*sections[kOffsetSection], *sections[kEntrySection], dialects, out));
  if (sections[kPropertiesSection]) {
    ByteStream p(*sections[kPropertiesSection]);
    out.properties.resize(p.Count());
    for (std::string_view& one : out.properties) one = p.Bytes(p.Varint());
    if (p.failed() || !p.AtEnd()) return Damaged("properties");
  }
  out.ir = *sections[kIrSection];
  return out;
}

}  // namespace krafla::stablehlo
