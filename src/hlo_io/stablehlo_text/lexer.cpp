// SPDX-License-Identifier: Apache-2.0
#include "hlo_io/stablehlo_text/lexer.h"

#include <charconv>

namespace krafla::stablehlo {
namespace {

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNamePart(char c) { return IsLetter(c) || IsDigit(c) || c == '.' || c == '$' || c == '-'; }
bool IsHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
int HexValue(char c) { return IsDigit(c) ? c - '0' : (c | 32) - 'a' + 10; }

}  // namespace

MlirLexer::Token MlirLexer::LexAt(std::size_t at) const {
  const std::size_t n = text_.size();
  for (;;) {
    while (at < n && (text_[at] == ' ' || text_[at] == '\n' || text_[at] == '\t' || text_[at] == '\r')) ++at;
    if (at + 1 < n && text_[at] == '/' && text_[at + 1] == '/') {
      while (at < n && text_[at] != '\n') ++at;
      continue;
    }
    break;
  }
  Token out;
  out.begin = out.end = at;
  if (at >= n) return out;
  const char c = text_[at];
  auto name = [&](std::size_t from) {
    std::size_t end = from;
    while (end < n && IsNamePart(text_[end])) {
      if (text_[end] == '-' && end + 1 < n && text_[end + 1] == '>') break;
      ++end;
    }
    return end;
  };
  auto string = [&](std::size_t from) -> bool {  // at the opening quote
    std::size_t end = from + 1;
    while (end < n && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
    if (end >= n) {
      out.kind = MlirTok::kBad;
      out.end = n;
      out.text = "a string that is never closed";
      return false;
    }
    out.text = text_.substr(from + 1, end - from - 1);
    out.end = end + 1;
    return true;
  };
  if (c == '"') {
    if (string(at)) out.kind = MlirTok::kString;
    return out;
  }
  if (c == '@' && at + 1 < n && text_[at + 1] == '"') {
    if (string(at + 1)) out.kind = MlirTok::kSymbol;
    return out;
  }
  if (c == '%' || c == '@' || c == '^' || c == '#' || c == '!') {
    const std::size_t end = name(at + 1);
    if (end > at + 1) {
      out.kind = c == '%'   ? MlirTok::kValue
                 : c == '@' ? MlirTok::kSymbol
                 : c == '^' ? MlirTok::kBlock
                 : c == '#' ? MlirTok::kHash
                            : MlirTok::kBang;
      out.text = text_.substr(at + 1, end - at - 1);
      out.end = end;
      return out;
    }
  }
  if (c == '-' && at + 1 < n && text_[at + 1] == '>') {
    out.kind = MlirTok::kArrow;
    out.end = at + 2;
    return out;
  }
  if (IsDigit(c) || (c == '-' && at + 1 < n && IsDigit(text_[at + 1]))) {
    std::size_t end = at + (c == '-' ? 1 : 0);
    if (text_[end] == '0' && end + 1 < n && text_[end + 1] == 'x' && end + 2 < n && IsHex(text_[end + 2])) {
      end += 2;
      while (end < n && IsHex(text_[end])) ++end;
    } else {
      while (end < n && IsDigit(text_[end])) ++end;
      if (end < n && text_[end] == '.') {
        ++end;
        while (end < n && IsDigit(text_[end])) ++end;
      }
      if (end < n && (text_[end] == 'e' || text_[end] == 'E')) {
        std::size_t exponent = end + 1;
        if (exponent < n && (text_[exponent] == '+' || text_[exponent] == '-')) ++exponent;
        if (exponent < n && IsDigit(text_[exponent])) {
          end = exponent;
          while (end < n && IsDigit(text_[end])) ++end;
        }
      }
    }
    out.kind = MlirTok::kNumber;
    out.text = text_.substr(at, end - at);
    out.end = end;
    return out;
  }
  if (IsLetter(c)) {
    out.kind = MlirTok::kWord;
    out.end = name(at);
    out.text = text_.substr(at, out.end - at);
    return out;
  }
  out.kind = MlirTok::kPunct;
  out.punct = c;
  out.end = at + 1;
  out.text = text_.substr(at, 1);
  return out;
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
