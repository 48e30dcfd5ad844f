// SPDX-License-Identifier: Apache-2.0
// Words, numbers and punctuation of the texts that shardings are written in. Comments are passed
// over, and backslashes: the text may stand in a quoted string.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "krafla/status.h"

namespace krafla {

class ShardingScanner {
 public:
  explicit ShardingScanner(std::string_view text) : text_(text) { Skip(); }

  bool AtEnd() const { return at_ >= text_.size(); }
  bool Is(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool Accept(char c) {
    if (!Is(c)) return false;
    ++at_;
    Skip();
    return true;
  }
  bool Accept(std::string_view token) {
    const std::size_t before = at_;
    for (char c : token) {
      if (Accept(c)) continue;
      at_ = before;
      return false;
    }
    return true;
  }
  Result<> Expect(char c) {
    if (Accept(c)) return {};
    return Bad(Format("'{}'", c));
  }
  Result<int64_t> Number() {
    int64_t out = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), out);
    if (error != std::errc()) return Bad("a number");
    at_ = static_cast<std::size_t>(end - text_.data());
    Skip();
    return out;
  }
  // Letters, digits, '_', '.', '-', '$'; empty where there are none.
  std::string_view Word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && IsWordCharacter(text_[at_])) ++at_;
    std::string_view out = text_.substr(begin, at_ - begin);
    Skip();
    return out;
  }
  // "text", in quotes that may be escaped.
  Result<std::string> Quoted() {
    if (!Is('"')) return Bad("a name in quotes");
    ++at_;
    std::string out;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] != '\\') out += text_[at_];
      ++at_;
    }
    if (AtEnd()) return Bad("the end of a name in quotes");
    ++at_;
    Skip();
    return out;
  }
  Failure Bad(std::string_view expected) const {
    return InvalidArgument("The sharding '{}' has {} expected at character {}.", text_.substr(0, 200), expected, at_);
  }

 private:
  static bool IsWordCharacter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-' || c == '$';
  }
  void Skip() {
    for (;;) {
      while (at_ < text_.size() &&
             (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\\'))
        ++at_;
      if (text_.substr(at_, 2) != "/*") return;  // a comment such as /*index=5*/
      const std::size_t end = text_.find("*/", at_ + 2);
      at_ = end == text_.npos ? text_.size() : end + 2;
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace krafla
