// SPDX-License-Identifier: Apache-2.0
// Numbers and texts as bytes. Ranks are of one build, which Bootstrap's first blobs say; what comes may still be
// anything.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace krafla::transport {

class WireWriter {
 public:
  template <typename T>
    requires std::is_integral_v<T>
  void Number(T value) {
    const auto wide = static_cast<uint64_t>(value);
    for (int i = 0; i < 8; ++i) bytes_ += static_cast<char>(wide >> (8 * i) & 255);
  }
  void Text(std::string_view text) {
    Number(text.size());
    bytes_ += text;
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// After something was missing, everything else is empty too, and `ok` says so.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  uint64_t Number() {
    if (bytes_.size() < 8) return Bad();
    uint64_t out = 0;
    for (std::size_t i = 0; i < 8; ++i) out |= static_cast<uint64_t>(static_cast<unsigned char>(bytes_[i])) << (8 * i);
    bytes_.remove_prefix(8);
    return out;
  }
  int64_t Signed() { return static_cast<int64_t>(Number()); }
  std::string Text() {
    const uint64_t size = Number();
    if (size > bytes_.size()) {
      Bad();
      return "";
    }
    std::string out(bytes_.substr(0, static_cast<std::size_t>(size)));
    bytes_.remove_prefix(static_cast<std::size_t>(size));
    return out;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return bytes_.empty(); }

 private:
  uint64_t Bad() {
    bytes_ = {};
    ok_ = false;
    return 0;
  }
  std::string_view bytes_;
  bool ok_ = true;
};

}  // namespace krafla::transport
