// SPDX-License-Identifier: Apache-2.0
// Tokens of HLO text, made on demand. What a number or a word means depends on where it stands ("3x3",
// "b01f_01io->b01f", "0_0x1_1"), so the parser may read the raw text from the current token and go on behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/module.h"
#include "krafla/status.h"

namespace krafla::hlo_text {

enum class Tok : uint8_t {
  kEnd,
  kWord,    // add, f32, all-reduce-start, x.1, ROOT
  kName,    // %x.1 or %"any text": `text` without the percent sign and quotes
  kNumber,  // -1, 2.5e3; what the characters mean is checked by whoever wants a number
  kString,  // "...": `text` is what stands between the quotes, escapes as written
  kArrow,   // ->
  kLessEqual,
  kPunct,  // any other character
  kBad,    // an unterminated string or comment: `text` says which
};

// Titles of the tables that XLA prints after optimisation.
inline constexpr std::string_view kStackFrameTables[] = {"FileNames", "FunctionNames", "FileLocations", "StackFrames"};

struct Token {
  Tok kind = Tok::kEnd;
  char punct = 0;
  std::size_t begin = 0, end = 0;
  std::string_view text;
};

class Lexer {
 public:
  Lexer(std::string_view text, std::string_view file) : text_(text), file_(file) { Seek(0); }

  const Token& token() const { return token_; }
  std::string_view text() const { return text_; }
  std::size_t bytes_left() const { return text_.size() - token_.begin; }
  // Where the token before the current one ended: missing things are reported there.
  std::size_t previous_end() const { return previous_end_; }

  Token Next() {
    Token out = token_;
    previous_end_ = out.end;
    token_ = LexAt(out.end);
    return out;
  }
  Token LookAhead() const { return LexAt(token_.end); }
  // The next token is the first at or after `offset`.
  void Seek(std::size_t offset) {
    previous_end_ = offset;
    token_ = LexAt(offset);
  }

  bool Is(char c) const { return token_.kind == Tok::kPunct && token_.punct == c; }
  bool IsWord(std::string_view word) const { return token_.kind == Tok::kWord && token_.text == word; }
  bool Accept(char c) {
    if (!Is(c)) return false;
    Next();
    return true;
  }
  // `where`: "after the operands".
  Result<> Expect(char c, std::string_view where);
  Result<> ExpectWord(std::string_view word);
  Result<int64_t> Int(std::string_view what);
  Result<double> Real(std::string_view what);
  Result<bool> Bool(std::string_view what);
  // Unescaped.
  Result<std::string> String(std::string_view what);
  // A name with or without '%'; the names of element types only with it.
  Result<std::string_view> Name(std::string_view what);
  // The run of characters from the current token up to a blank or one of , { } ( ) [ ] = ".
  std::string_view RawWord();
  // "{ ... }" from the current token, braces balanced outside strings: the text with its braces.
  Result<std::string_view> RawBraces(std::string_view what);

  // First offset at or after `offset` that is neither blank nor in a comment; sets `bad` for an open comment.
  std::size_t SkipBlank(std::size_t offset, bool* bad = nullptr) const;

  SourceLocation Locate(std::size_t offset) const;
  Failure Error(std::size_t offset, std::string_view message, StatusCode code = StatusCode::kInvalidArgument) const;
  // At the current token; where that is an unterminated string or comment, the message says so instead.
  Failure Error(std::string_view message) const;
  // "expected X <where>, found Y"
  Failure Unexpected(std::string_view expected) const;

 private:
  Token LexAt(std::size_t offset) const;

  std::string_view text_, file_;
  Token token_;
  std::size_t previous_end_ = 0;
  mutable std::size_t located_offset_ = 0, located_line_start_ = 0;
  mutable int located_line_ = 1;
};

inline bool IsWordStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
inline bool IsDigit(char c) { return c >= '0' && c <= '9'; }
inline bool IsWordChar(char c) { return IsWordStart(c) || IsDigit(c) || c == '.' || c == '-'; }

// Between C's escapes (\n \t \" \\ \' \r \xHH, octal) and bytes.
std::string Unescape(std::string_view text);
// What a name as Lexer::Name returns it stands for: only %"quoted" ones have escapes.
inline std::string PlainName(std::string_view name) {
  return name.find('\\') == std::string_view::npos ? std::string(name) : Unescape(name);
}
std::string Escape(std::string_view bytes);
// The bytes of a backend_config as InstructionMetadata has it: of a quoted string what it stands for, else as written.
inline std::string ConfigBytes(std::string_view config) {
  const bool quoted = config.size() >= 2 && config.starts_with('"');
  return quoted ? Unescape(config.substr(1, config.size() - 2)) : std::string(config);
}
// The text as a name that needs no quotes, as XLA makes one of a location: "a[0]['w']" is a_0___w__. Empty for "".
std::string NameFrom(std::string_view text);
// One of the frontend_attributes, as XLA prints it: key="value", without quotes where the value is in braces.
std::string FrontendAttribute(std::string_view key, std::string_view value);
// The attributes of such a list, as far as it can be read.
std::vector<std::pair<std::string, std::string>> FrontendAttributesIn(std::string_view text);

// The whole of `text` as an integer of T; false when it is not one or does not fit.
bool ParseInt64(std::string_view text, int64_t* out);
// The whole of `text` as a decimal number, also inf, -inf, nan, -nan. Too small becomes 0, too large is false.
bool ParseReal(std::string_view text, double* out);

}  // namespace krafla::hlo_text
