// SPDX-License-Identifier: Apache-2.0
// The records of an archive, as PKWARE's APPNOTE 6.3 has them (sections 4.3 and 4.5): little-endian, at any alignment.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace krafla::zip {

inline constexpr uint32_t kLocalHeader = 0x04034b50, kDirectoryEntry = 0x02014b50, kEndOfDirectory = 0x06054b50,
                          kEndOfDirectory64 = 0x06064b50, kEndOfDirectory64Locator = 0x07064b50;
// Bytes, without names, extra fields and comments.
inline constexpr std::size_t kLocalHeaderBytes = 30, kDirectoryEntryBytes = 46, kEndOfDirectoryBytes = 22,
                             kEndOfDirectory64Bytes = 56, kEndOfDirectory64LocatorBytes = 20;
inline constexpr uint16_t kStored = 0, kDeflated = 8;
inline constexpr uint16_t kEncrypted = 1, kUtf8Name = 1 << 11;  // flags
inline constexpr uint16_t kWideSizes = 0x0001;                  // the extra field that holds what 32 bits do not
// In the place of a number that does not fit: it is elsewhere.
inline constexpr uint16_t kElsewhere16 = 0xffff;
inline constexpr uint32_t kElsewhere32 = 0xffffffff;

// The number of `T`'s width at byte `at`, which `record` has.
template <typename T>
T Number(std::string_view record, std::size_t at) {
  uint64_t out = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) out |= uint64_t{static_cast<uint8_t>(record[at + i])} << (8 * i);
  return static_cast<T>(out);
}
template <typename T>
void Append(std::string& record, T number) {
  for (std::size_t i = 0; i < sizeof(T); ++i) record += static_cast<char>(number >> (8 * i) & 0xff);
}

// CRC-32 of `bytes` behind those whose checksum is `checksum`. (For zlib a null pointer, as an empty span has, begins
// anew.)
inline uint32_t Checksum(uint32_t checksum, std::span<const std::byte> bytes) {
  if (bytes.empty()) return checksum;
  return static_cast<uint32_t>(crc32_z(checksum, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace krafla::zip
