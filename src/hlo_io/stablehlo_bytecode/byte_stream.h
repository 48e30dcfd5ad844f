// SPDX-License-Identifier: Apache-2.0
// Bytes read one after the other. A read past the end gives zeros and marks the stream as failed; whoever reads asks
// once in a while, and at the end.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace krafla::stablehlo {

class ByteStream {
 public:
  ByteStream() = default;
  explicit ByteStream(std::string_view bytes) : bytes_(bytes) {}

  bool failed() const { return failed_; }
  bool AtEnd() const { return at_ == bytes_.size(); }
  std::size_t left() const { return bytes_.size() - at_; }
  std::size_t position() const { return at_; }

  uint8_t Byte() {
    if (at_ >= bytes_.size()) return Fail();
    return static_cast<uint8_t>(bytes_[at_++]);
  }
  // PrefixVarInt: as many bytes as the first has trailing zeros, and one (MLIR bytecode format, "Variable-width
  // integers").
  uint64_t Varint() {
    const uint8_t first = Byte();
    if ((first & 1) != 0) return first >> 1;
    const int more = first == 0 ? 8 : std::countr_zero(first);
    if (left() < static_cast<std::size_t>(more)) return Fail();
    uint64_t rest = 0;
    std::memcpy(&rest, bytes_.data() + at_, static_cast<std::size_t>(more));
    at_ += static_cast<std::size_t>(more);
    if (first == 0) return rest;
    // `more` bytes above the first, less the bits of the prefix.
    return (rest << (7 - more)) | (static_cast<uint64_t>(first) >> (more + 1));
  }
  int64_t SignedVarint() {
    const uint64_t v = Varint();
    return static_cast<int64_t>(v >> 1) ^ -static_cast<int64_t>(v & 1);
  }
  // A count of things that take at least a byte each here.
  std::size_t Count() {
    const uint64_t n = Varint();
    if (n > left()) return Fail();
    return static_cast<std::size_t>(n);
  }
  std::string_view Bytes(uint64_t n) {
    if (n > left()) {
      Fail();
      return {};
    }
    std::string_view out = bytes_.substr(at_, static_cast<std::size_t>(n));
    at_ += static_cast<std::size_t>(n);
    return out;
  }

 private:
  uint8_t Fail() {
    failed_ = true;
    at_ = bytes_.size();
    return 0;
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace krafla::stablehlo
