// SPDX-License-Identifier: Apache-2.0
#include "hlo_io/stablehlo_text/lexer.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace krafla::stablehlo {
namespace {

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNamePart(char c) { return IsLetter(c) || IsDigit(c) || c == '.' || c == '$' || c == '-'; }
bool IsHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
int HexValue(char c) { return IsDigit(c) ? c - '0' : (c | 32) - 'a' + 10; }

// Behind white space and comments.
std::size_t SkipBlank(std::string_view text, std::size_t at) {
  for (;;) {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r')) ++at;
    if (at + 1 >= text.size() || text[at] != '/' || text[at + 1] != '/') return at;
    while (at < text.size() && text[at] != '\n') ++at;
  }
}

// Behind a name that begins at `at`; the arrow "->" is not part of one.
std::size_t NameEnd(std::string_view text, std::size_t at) {
  while (at < text.size() && IsNamePart(text[at])) {
    if (text[at] == '-' && at + 1 < text.size() && text[at + 1] == '>') break;
    ++at;
  }
  return at;
}

std::size_t DigitsEnd(std::string_view text, std::size_t at) {
  while (at < text.size() && IsDigit(text[at])) ++at;
  return at;
}

// Behind a number: digits, perhaps hexadecimal, with a fraction, or with an exponent.
std::size_t NumberEnd(std::string_view text, std::size_t at) {
  const std::size_t n = text.size();
  std::size_t end = at + (text[at] == '-' ? 1 : 0);
  if (text[end] == '0' && end + 2 < n && text[end + 1] == 'x' && IsHex(text[end + 2])) {
    end += 2;
    while (end < n && IsHex(text[end])) ++end;
    return end;
  }
  end = DigitsEnd(text, end);
  if (end < n && text[end] == '.') end = DigitsEnd(text, end + 1);
  if (end < n && (text[end] == 'e' || text[end] == 'E')) {
    std::size_t exponent = end + 1;
    if (exponent < n && (text[exponent] == '+' || text[exponent] == '-')) ++exponent;
    if (exponent < n && IsDigit(text[exponent])) end = DigitsEnd(text, exponent);
  }
  return end;
}

// The kind of a token of a mark and a name; nothing for another character.
std::optional<MlirTok> MarkedKind(char mark) {
  switch (mark) {
    case '%': return MlirTok::kValue;
    case '@': return MlirTok::kSymbol;
    case '^': return MlirTok::kBlock;
    case '#': return MlirTok::kHash;
    case '!': return MlirTok::kBang;
    default: return std::nullopt;
  }
}

}  // namespace

// A string whose opening quote is at `quote`.
MlirLexer::Token MlirLexer::LexString(std::size_t begin, std::size_t quote, MlirTok kind) const {
  Token out;
  out.begin = begin;
  std::size_t end = quote + 1;
  while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
  if (end >= text_.size()) {
    out.kind = MlirTok::kBad;
    out.end = text_.size();
    out.text = "a string that is never closed";
    return out;
  }
  out.kind = kind;
  out.text = text_.substr(quote + 1, end - quote - 1);
  out.end = end + 1;
  return out;
}

MlirLexer::Token MlirLexer::LexAt(std::size_t at) const {
  const std::size_t n = text_.size();
  at = SkipBlank(text_, at);
  Token out;
  out.begin = out.end = at;
  if (at >= n) return out;
  const char c = text_[at];
  if (c == '"') return LexString(at, at, MlirTok::kString);
  if (c == '@' && at + 1 < n && text_[at + 1] == '"') return LexString(at, at + 1, MlirTok::kSymbol);
  const auto token = [&](MlirTok kind, std::size_t text, std::size_t end) {
    out.kind = kind;
    out.text = text_.substr(text, end - text);
    out.end = end;
    return out;
  };
  if (text_.substr(at, 3) == "{-#") return token(MlirTok::kTrailer, at, at + 3);
  if (text_.substr(at, 3) == "#-}") return token(MlirTok::kTrailerEnd, at, at + 3);
  if (const std::optional<MlirTok> marked = MarkedKind(c))
    if (const std::size_t end = NameEnd(text_, at + 1); end > at + 1) return token(*marked, at + 1, end);
  if (c == '-' && at + 1 < n && text_[at + 1] == '>') {
    out.kind = MlirTok::kArrow;
    out.end = at + 2;
    return out;
  }
  if (IsDigit(c) || (c == '-' && at + 1 < n && IsDigit(text_[at + 1])))
    return token(MlirTok::kNumber, at, NumberEnd(text_, at));
  if (IsLetter(c)) return token(MlirTok::kWord, at, NameEnd(text_, at));
  out.punct = c;
  return token(MlirTok::kPunct, at, at + 1);
}

std::string MlirLexer::Place(std::size_t offset) const {
  if (offset < located_offset_) {
    located_offset_ = located_start_ = 0;
    located_line_ = 1;
  }
  for (; located_offset_ < offset && located_offset_ < text_.size(); ++located_offset_)
    if (text_[located_offset_] == '\n') {
      ++located_line_;
      located_start_ = located_offset_ + 1;
    }
  return Format("{}:{}:{}", file_, located_line_, offset - located_start_ + 1);
}

Failure MlirLexer::ErrorAt(std::size_t offset, std::string_view message) const {
  const std::string place = Place(offset);
  const std::size_t end = std::min({text_.find('\n', located_start_), text_.size(), located_start_ + 200});
  return InvalidArgument("{}: {}\n    {}", place, message, text_.substr(located_start_, end - located_start_));
}

Failure MlirLexer::Unexpected(std::string_view wanted) const {
  if (token_.kind == MlirTok::kBad) return Error(Format("Here begins {}.", token_.text));
  if (token_.kind == MlirTok::kEnd) return Error(Format("Expected {}, found the end of the text.", wanted));
  return Error(Format("Expected {}, found '{}'.", wanted,
                      text_.substr(token_.begin, std::min<std::size_t>(token_.end - token_.begin, 40))));
}

Result<> MlirLexer::Expect(char c) {
  if (Accept(c)) return {};
  return Unexpected(Format("'{}'", c));
}

Result<> MlirLexer::ExpectWord(std::string_view word) {
  if (AcceptWord(word)) return {};
  return Unexpected(Format("'{}'", word));
}

Result<int64_t> MlirLexer::Int() {
  int64_t value = 0;
  const std::string_view text = token_.text;
  if (token_.kind != MlirTok::kNumber) return Unexpected("an integer");
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return Error("This is not an integer of 64 bits.");
  Next();
  return value;
}

Result<std::string> MlirLexer::String() {
  if (token_.kind != MlirTok::kString) return Unexpected("a string");
  return UnescapeMlir(Next().text);
}

Result<> MlirLexer::SkipBrackets() {
  std::string open;
  const std::size_t begin = token_.begin;
  do {
    if (token_.kind == MlirTok::kEnd || token_.kind == MlirTok::kBad)
      return ErrorAt(begin, "This bracket is never closed.");
    if (token_.kind == MlirTok::kPunct) {
      const char c = token_.punct;
      if (c == '(' || c == '[' || c == '{' || c == '<') open += c;
      if (c == ')' || c == ']' || c == '}' || c == '>') {
        const char want = c == ')' ? '(' : c == ']' ? '[' : c == '}' ? '{' : '<';
        if (open.empty() || open.back() != want) return Error("This bracket was never opened.");
        open.pop_back();
      }
    }
    Next();
  } while (!open.empty());
  return {};
}

std::string UnescapeMlir(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 >= text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    if (c == 'n') out += '\n';
    else if (c == 't') out += '\t';
    else if (IsHex(c) && i + 1 < text.size() && IsHex(text[i + 1]))
      out += static_cast<char>(HexValue(c) * 16 + HexValue(text[++i]));
    else out += c;
  }
  return out;
}

}  // namespace krafla::stablehlo
