// SPDX-License-Identifier: Apache-2.0
// Texts to tokens and back, as model.json says: a tokenizer.json (byte pairs) or SentencePiece's model.
#pragma once

#include <krafla/status.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "json.h"

namespace llm {

class Tokens {
 public:
  // `description` is model.json's "tokenizer".
  static krafla::Result<std::unique_ptr<Tokens>> Load(const std::string& folder, const json& description);
  virtual ~Tokens() = default;

  // What a text begins with that is no conversation.
  const std::vector<int32_t>& prefix() const { return prefix_; }
  // Special tokens that the text spells out become themselves.
  krafla::Result<std::vector<int32_t>> Encode(std::string_view text) const;
  // What a token adds to a text: bytes, as a character may be spread over several tokens. Nothing for special ones.
  virtual std::string BytesOf(int32_t token) const = 0;
  // The first word of a text has a space before it, which is not written.
  bool hides_first_space() const { return hides_first_space_; }

 protected:
  // A text without tokens of `named_`, none of it before it where `is_first`.
  virtual krafla::Result<std::vector<int32_t>> EncodePlain(std::string_view text, bool is_first) const = 0;

  std::map<std::string, int32_t, std::less<>> named_;  // tokens that are found in texts before anything else
  std::vector<int32_t> prefix_;
  bool hides_first_space_ = false;
};

// Bytes as they come, whole characters as they are complete; what is no UTF-8 becomes U+FFFD.
class Utf8Stream {
 public:
  std::string Add(std::string_view bytes);
  std::string Rest();

 private:
  std::string waiting_;
};

}  // namespace llm
