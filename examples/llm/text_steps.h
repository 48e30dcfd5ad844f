// SPDX-License-Identifier: Apache-2.0
// What a tokenizer.json does with a text before pairs are merged: its normalizer and its pre_tokenizer, step by step.
// Regular expressions are PCRE2's.
#pragma once

#include <krafla/status.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "json.h"

namespace llm {

// A byte as the letter that GPT-2 writes it as, and back.
std::string ToByteLetters(std::string_view bytes);
std::string FromByteLetters(std::string_view letters);
// Bytes of the character that begins the text; 1 where it is none.
std::size_t Utf8Size(std::string_view text);
std::string Replaced(std::string_view text, std::string_view what, std::string_view by);

class TextSteps {
 public:
  // NFC is left out: text that is written by keyboards and editors has that form.
  static krafla::Result<TextSteps> Read(const json& normalizer, const json& pre_tokenizer);
  // The words of a text; `is_first`: nothing stands before it.
  krafla::Result<std::vector<std::string>> Cut(std::string_view text, bool is_first) const;
  bool has_byte_letters() const { return has_byte_letters_; }

 private:
  using Normalize = std::function<std::string(std::string text, bool is_first)>;
  // A word to words.
  using Split = std::function<krafla::Result<std::vector<std::string>>(std::string word, bool is_first)>;
  krafla::Result<> AddNormalizer(const json& step);
  krafla::Result<> AddSplit(const json& step);
  krafla::Result<> AddPattern(const json& pattern, const std::string& behavior, bool is_inverted);
  krafla::Result<> AddByteLevel(const json& step);
  krafla::Result<> AddMetaspace(const json& step);

  std::vector<Normalize> normalizers_;
  std::vector<Split> splits_;
  bool has_byte_letters_ = false;
};

}  // namespace llm
