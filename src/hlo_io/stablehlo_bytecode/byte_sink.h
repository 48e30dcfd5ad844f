// SPDX-License-Identifier: Apache-2.0
// The numbers of MLIR bytecode, written: the inverse of byte_stream.h.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace krafla::stablehlo {

class ByteSink {
 public:
  void Byte(uint8_t byte) { bytes_ += static_cast<char>(byte); }
  void Bytes(std::string_view bytes) { bytes_ += bytes; }
  // PrefixVarInt: seven bits a byte, as many bytes as the first has trailing zeros, and one; nine for what needs more
  // than 56 bits.
  void Varint(uint64_t value) {
    const int count = value == 0 ? 1 : (std::bit_width(value) + 6) / 7;
    if (count > 8) {
      Byte(0);
      Append(value, 8);
    } else {
      Append(((value << 1) | 1) << (count - 1), count);
    }
  }
  void SignedVarint(int64_t value) { Varint((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63)); }
  // A section with what is in it.
  void Section(uint8_t id, std::string_view body) {
    Byte(id);
    Varint(body.size());
    Bytes(body);
  }
  const std::string& bytes() const { return bytes_; }
  std::string Take() { return std::move(bytes_); }

 private:
  void Append(uint64_t value, int count) {
    bytes_.append(reinterpret_cast<const char*>(&value), static_cast<std::size_t>(count));
  }

  std::string bytes_;
};

}  // namespace krafla::stablehlo
