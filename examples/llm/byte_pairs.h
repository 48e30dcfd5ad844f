// SPDX-License-Identifier: Apache-2.0
// A tokenizer.json with a vocabulary of byte pairs: what Llama 3, Qwen, SmolLM and GPT-2 have (bytes as letters), and
// Llama 2, Mistral and Gemma (SentencePiece's pieces, and bytes for what has none).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text_steps.h"
#include "tokens.h"

namespace llm {

// The bytes of a piece of SentencePiece's: its mark for a space, and "<0x0A>" for a byte.
std::string PieceBytes(std::string_view piece, bool is_byte);

class BytePairs final : public Tokens {
 public:
  static krafla::Result<std::unique_ptr<Tokens>> Load(const std::string& path, std::vector<int32_t> prefix);
  std::string BytesOf(int32_t token) const override;

 private:
  struct Merge {
    int32_t rank, made;
  };
  krafla::Result<> ReadVocabulary(const json& model);
  krafla::Result<> ReadAdded(const json& tokens);
  krafla::Result<std::vector<int32_t>> EncodePlain(std::string_view text, bool is_first) const override;
  // One token a letter, or what stands for letters that the vocabulary lacks.
  krafla::Result<std::vector<int32_t>> Letters(std::string_view word) const;
  // Joins the pair of the lowest rank, over and over.
  std::vector<int32_t> Merged(std::vector<int32_t> tokens) const;
  krafla::Result<> AddWord(std::string_view word, std::vector<int32_t>& out) const;

  std::unordered_map<std::string, int32_t> vocabulary_;
  std::vector<std::string> names_;              // by token
  std::vector<bool> is_special_, is_added_;     // by token
  std::unordered_map<uint64_t, Merge> merges_;  // by the two tokens
  TextSteps steps_;
  bool has_byte_letters_ = false, has_byte_tokens_ = false, takes_whole_words_ = false;
  int32_t unknown_ = -1;
};

}  // namespace llm
