// SPDX-License-Identifier: Apache-2.0
// Tokens of MLIR text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "krafla/status.h"

namespace krafla::stablehlo {

enum class MlirTok : uint8_t {
  kEnd,
  kWord,    // stablehlo.add, dense, i32, x
  kValue,   // %name: text without the sign
  kSymbol,  // @name or @"name": text without the sign
  kBlock,   // ^name
  kHash,    // #name
  kBang,    // !name
  kNumber,  // 1, -2, 1.0e+00, 0x7FC0
  kString,  // text without the quotes, escapes as written
  kArrow,
  kTrailer,     // {-#, which begins what is no part of the program
  kTrailerEnd,  // #-}
  kPunct,
  kBad,
};

class MlirLexer {
 public:
  struct Token {
    MlirTok kind = MlirTok::kEnd;
    char punct = 0;
    std::size_t begin = 0, end = 0;
    std::string_view text;
  };

  MlirLexer(std::string_view text, std::string_view file) : text_(text), file_(file) { Seek(0); }

  const Token& token() const { return token_; }
  std::string_view text() const { return text_; }
  Token Next() {
    Token out = token_;
    token_ = LexAt(out.end);
    return out;
  }
  Token LookAhead() const { return LexAt(token_.end); }
  void Seek(std::size_t offset) { token_ = LexAt(offset); }
  bool Is(char c) const { return token_.kind == MlirTok::kPunct && token_.punct == c; }
  bool IsWord(std::string_view word) const { return token_.kind == MlirTok::kWord && token_.text == word; }
  bool Accept(char c) {
    if (!Is(c)) return false;
    Next();
    return true;
  }
  bool AcceptWord(std::string_view word) {
    if (!IsWord(word)) return false;
    Next();
    return true;
  }
  Result<> Expect(char c);
  Result<> ExpectWord(std::string_view word);
  Result<int64_t> Int();
  Result<std::string> String();
  // From the current token, an opening bracket, past the one that closes it.
  Result<> SkipBrackets();
  std::string Place(std::size_t offset) const;  // "file:line:column"
  Failure Error(std::string_view message) const { return ErrorAt(token_.begin, message); }
  Failure ErrorAt(std::size_t offset, std::string_view message) const;
  Failure Unexpected(std::string_view wanted) const;

 private:
  Token LexAt(std::size_t offset) const;
  Token LexString(std::size_t begin, std::size_t quote, MlirTok kind) const;

  std::string_view text_, file_;
  Token token_;
  mutable std::size_t located_offset_ = 0, located_start_ = 0;
  mutable int located_line_ = 1;
};

std::string UnescapeMlir(std::string_view text);

}  // namespace krafla::stablehlo
