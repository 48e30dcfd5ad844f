// SPDX-License-Identifier: Apache-2.0
#include "hlo_io/hlo_text/lexer.h"

#include <charconv>
#include <cstring>
#include <limits>

#include "base/parse_float.h"

namespace krafla::hlo_text {
namespace {

constexpr std::string_view kOpenComment = "This comment is never closed.";
constexpr std::string_view kOpenString = "This string is never closed.";

// The offset behind the string that opens at `offset`, or npos.
std::size_t EndOfString(std::string_view text, std::size_t offset) {
  for (std::size_t i = offset + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

std::string Shown(const Token& token) {
  if (token.kind == Tok::kEnd) return "the end of the text";
  if (token.kind == Tok::kString) return "a string";
  if (token.kind == Tok::kArrow) return "'->'";
  if (token.kind == Tok::kLessEqual) return "'<='";
  if (token.kind == Tok::kPunct) {
    auto c = static_cast<unsigned char>(token.punct);
    if (c < 0x20 || c >= 0x7f) return Format("the byte 0x{:02x}", c);
    return Format("'{}'", token.punct);
  }
  std::string_view text = token.text.substr(0, 60);
  return Format("'{}{}{}'", token.kind == Tok::kName ? "%" : "", text, text.size() < token.text.size() ? "..." : "");
}

int HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::size_t Lexer::SkipBlank(std::size_t i, bool* bad) const {
  const std::size_t size = text_.size();
  while (i < size) {
    char c = text_[i];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
      ++i;
    } else if (c == '/' && i + 1 < size && text_[i + 1] == '/') {
      i = text_.find('\n', i);
      if (i == std::string_view::npos) return size;
    } else if (c == '/' && i + 1 < size && text_[i + 1] == '*') {
      std::size_t end = text_.find("*/", i + 2);
      if (end == std::string_view::npos) {
        if (bad) *bad = true;
        return i;
      }
      i = end + 2;
    } else {
      return i;
    }
  }
  return size;
}

Token Lexer::LexAt(std::size_t offset) const {
  Token out;
  bool bad = false;
  std::size_t i = SkipBlank(offset, &bad);
  const std::size_t size = text_.size();
  out.begin = i;
  out.end = i;
  auto take = [&](Tok kind, std::size_t end) {
    out.kind = kind;
    out.end = end;
    out.text = text_.substr(i, end - i);
    return out;
  };
  auto at = [&](std::size_t p) { return p < size ? text_[p] : '\0'; };
  // '-' belongs to a word unless it begins an arrow.
  auto word_end = [&](std::size_t p) {
    while (p < size && IsWordChar(text_[p]) && !(text_[p] == '-' && at(p + 1) == '>')) ++p;
    return p;
  };
  // What is bad reaches to the end, so that no loop over tokens stays on it.
  auto spoil = [&](std::string_view what) {
    out.kind = Tok::kBad;
    out.end = size;
    out.text = what;
    return out;
  };
  if (bad) return spoil(kOpenComment);
  if (i >= size) return out;
  char c = text_[i];
  if (IsWordStart(c)) return take(Tok::kWord, word_end(i + 1));
  if (c == '%') {
    if (at(i + 1) == '"') {
      std::size_t end = EndOfString(text_, i + 1);
      if (end == std::string_view::npos) return spoil(kOpenString);
      take(Tok::kName, end);
      out.text = text_.substr(i + 2, end - i - 3);
      return out;
    }
    std::size_t end = word_end(i + 1);
    if (end > i + 1) {
      take(Tok::kName, end);
      out.text.remove_prefix(1);
      return out;
    }
  }
  if (c == '"') {
    std::size_t end = EndOfString(text_, i);
    if (end == std::string_view::npos) return spoil(kOpenString);
    take(Tok::kString, end);
    out.text = text_.substr(i + 1, end - i - 2);
    return out;
  }
  if (c == '-' && at(i + 1) == '>') return take(Tok::kArrow, i + 2);
  if (c == '<' && at(i + 1) == '=') return take(Tok::kLessEqual, i + 2);
  if (c == '-' && IsWordStart(at(i + 1))) return take(Tok::kNumber, word_end(i + 2));  // -inf, -nan
  if (IsDigit(c) || ((c == '-' || c == '.') && (IsDigit(at(i + 1)) || at(i + 1) == '.'))) {
    std::size_t p = i + 1;
    while (p < size && (IsDigit(text_[p]) || text_[p] == '.')) ++p;
    if (p < size && (text_[p] == 'e' || text_[p] == 'E')) {
      std::size_t q = p + 1;
      if (at(q) == '+' || at(q) == '-') ++q;
      if (IsDigit(at(q))) {
        while (q < size && IsDigit(text_[q])) ++q;
        p = q;
      }
    }
    return take(Tok::kNumber, p);
  }
  take(Tok::kPunct, i + 1);
  out.punct = c;
  return out;
}

Result<> Lexer::Expect(char c, std::string_view where) {
  if (Accept(c)) return {};
  return Unexpected(Format("'{}' {}", c, where));
}

Result<> Lexer::ExpectWord(std::string_view word) {
  if (!IsWord(word)) return Unexpected(Format("'{}'", word));
  Next();
  return {};
}

Result<int64_t> Lexer::Int(std::string_view what) {
  if (token_.kind != Tok::kNumber) return Unexpected(Format("an integer as {}", what));
  int64_t out = 0;
  if (!ParseInt64(token_.text, &out))
    return Error(Format("'{}' is not an integer of 64 bits, which {} must be.", token_.text.substr(0, 60), what));
  if (token_.end < text_.size() && IsWordStart(text_[token_.end]))
    return Error(Format("An integer as {} may not be followed by '{}'.", what, text_[token_.end]));
  Next();
  return out;
}

Result<double> Lexer::Real(std::string_view what) {
  double out = 0;
  if (token_.kind != Tok::kNumber && token_.kind != Tok::kWord) return Unexpected(Format("a number as {}", what));
  if (!ParseReal(token_.text, &out))
    return Error(Format("'{}' is not a number that {} can be.", token_.text.substr(0, 60), what));
  Next();
  return out;
}

Result<bool> Lexer::Bool(std::string_view what) {
  if (IsWord("true") || IsWord("false")) return Next().text == "true";
  return Unexpected(Format("true or false as {}", what));
}

Result<std::string> Lexer::String(std::string_view what) {
  if (token_.kind != Tok::kString) return Unexpected(Format("a string as {}", what));
  return Unescape(Next().text);
}

Result<std::string_view> Lexer::Name(std::string_view what) {
  if (token_.kind != Tok::kWord && token_.kind != Tok::kName) return Unexpected(what);
  // Of the words for types `tuple` alone may be a name: XLA names instructions so.
  if (token_.kind == Tok::kWord && token_.text != "tuple" && ElementTypeFromName(token_.text))
    return Error(Format("Expected {}, found '{}', which is an element type; a name like it is written '%{}'.", what,
                        token_.text, token_.text));
  return Next().text;
}

std::string_view Lexer::RawWord() {
  std::size_t end = token_.begin;
  while (end < text_.size() && std::string_view(" \t\r\n,{}()[]=\"").find(text_[end]) == std::string_view::npos) ++end;
  std::string_view out = text_.substr(token_.begin, end - token_.begin);
  Seek(end);
  return out;
}

Result<std::string_view> Lexer::RawBraces(std::string_view what) {
  if (!Is('{')) return Unexpected(Format("'{{' to open {}", what));
  std::size_t begin = token_.begin, i = begin;
  int64_t depth = 0;
  while (i < text_.size()) {
    char c = text_[i];
    if (c == '"') {
      std::size_t end = EndOfString(text_, i);
      if (end == std::string_view::npos) return Error(i, kOpenString);
      i = end;
      continue;
    }
    ++i;
    if (c == '{') ++depth;
    if (c == '}' && --depth == 0) {
      Seek(i);
      return text_.substr(begin, i - begin);
    }
  }
  return Error(begin, Format("The brace that opens {} is never closed.", what));
}

SourceLocation Lexer::Locate(std::size_t offset) const {
  if (offset < located_offset_) {
    located_offset_ = located_line_start_ = 0;
    located_line_ = 1;
  }
  while (located_offset_ < offset) {
    const void* found = std::memchr(text_.data() + located_offset_, '\n', offset - located_offset_);
    if (found == nullptr) break;
    located_offset_ = static_cast<std::size_t>(static_cast<const char*>(found) - text_.data()) + 1;
    located_line_start_ = located_offset_;
    if (located_line_ < std::numeric_limits<int>::max()) ++located_line_;
  }
  located_offset_ = offset;
  std::size_t column = offset - located_line_start_ + 1;
  return {located_line_, static_cast<int>(std::min<std::size_t>(column, std::numeric_limits<int>::max()))};
}

Failure Lexer::Error(std::size_t offset, std::string_view message, StatusCode code) const {
  offset = std::min(offset, text_.size());
  SourceLocation at = Locate(offset);
  std::size_t begin = located_line_start_;
  std::size_t end = text_.find_first_of("\r\n", begin);
  if (end == std::string_view::npos) end = text_.size();
  // A long line is shown around the place that matters.
  constexpr std::size_t kBefore = 90, kAfter = 50;
  bool cut_left = offset - begin > kBefore + 10, cut_right = end > offset && end - offset > kAfter + 10;
  if (cut_left) begin = offset - kBefore;
  if (cut_right) end = offset + kAfter;
  if (end < begin) end = begin;
  std::string line = cut_left ? "..." : "", caret = cut_left ? "   " : "";
  for (std::size_t i = begin; i < end; ++i) {
    auto c = static_cast<unsigned char>(text_[i]);
    line += c == '\t' ? '\t' : c < 0x20 || c >= 0x7f ? '?' : text_[i];
    if (i < offset) caret += c == '\t' ? '\t' : ' ';
  }
  if (cut_right) line += "...";
  return MakeError(code, "{}:{}:{}: {}\n  {}\n  {}^", file_, at.line, at.column, message, line, caret);
}

Failure Lexer::Error(std::string_view message) const {
  return Error(token_.begin, token_.kind == Tok::kBad ? token_.text : message);
}

Failure Lexer::Unexpected(std::string_view expected) const {
  return Error(Format("Expected {}, found {}.", expected, Shown(token_)));
}

std::string Unescape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    char c = text[++i];
    if (c == 'n') out += '\n';
    else if (c == 't') out += '\t';
    else if (c == 'r') out += '\r';
    else if (c == 'a') out += '\a';
    else if (c == 'b') out += '\b';
    else if (c == 'f') out += '\f';
    else if (c == 'v') out += '\v';
    else if (c == 'x' && i + 1 < text.size() && HexDigit(text[i + 1]) >= 0) {
      int value = HexDigit(text[++i]);
      if (i + 1 < text.size() && HexDigit(text[i + 1]) >= 0) value = value * 16 + HexDigit(text[++i]);
      out += static_cast<char>(value);
    } else if (c >= '0' && c <= '7') {
      int value = c - '0';
      for (int n = 0; n < 2 && i + 1 < text.size() && text[i + 1] >= '0' && text[i + 1] <= '7'; ++n)
        value = value * 8 + (text[++i] - '0');
      out += static_cast<char>(value);
    } else {
      out += c;
    }
  }
  return out;
}

std::string Escape(std::string_view bytes) {
  std::string out;
  for (char c : bytes) {
    auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') out += Format("\\{}", c);
    else if (c == '\n') out += "\\n";
    else if (c == '\t') out += "\\t";
    else if (c == '\r') out += "\\r";
    else if (u < 0x20 || u == 0x7f) out += Format("\\{:03o}", u);
    else out += c;
  }
  return out;
}

bool ParseInt64(std::string_view text, int64_t* out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

bool ParseReal(std::string_view text, double* out) {
  std::string_view digits = text;
  bool negative = digits.starts_with('-');
  if (negative) digits.remove_prefix(1);
  if (digits == "inf" || digits == "nan") {
    *out = digits == "inf" ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    if (negative) *out = -*out;
    return true;
  }
  if (digits.empty() || !(IsDigit(digits[0]) || digits[0] == '.')) return false;
  auto [end, error] = ParseFloat(digits.data(), digits.data() + digits.size(), *out);
  if (end != digits.data() + digits.size()) return false;
  if (error == std::errc::result_out_of_range) {
    // Where the first digit other than 0 stands tells too small from too large.
    std::size_t e = digits.find_first_of("eE");
    std::string_view mantissa = digits.substr(0, e);
    std::size_t point = std::min(mantissa.find('.'), mantissa.size());
    std::size_t first = mantissa.find_first_not_of("0.");
    double place = first == std::string_view::npos ? 0 : static_cast<double>(point) - static_cast<double>(first);
    bool negative_exponent = e != std::string_view::npos && e + 1 < digits.size() && digits[e + 1] == '-';
    double exponent = 0;
    if (e != std::string_view::npos)
      for (char c : digits.substr(e + 1))
        if (IsDigit(c)) exponent = std::min(exponent * 10 + (c - '0'), 1e300);
    if (place + (negative_exponent ? -exponent : exponent) > 0) return false;
    *out = 0;
  } else if (error != std::errc()) {
    return false;
  }
  // An integer token "-0" is the integer 0 in XLA's lexer (hlo_lexer.cc), so it loses its sign.
  if (negative && !(*out == 0 && digits.find_first_of(".eE") == std::string_view::npos)) *out = -*out;
  return true;
}

std::string NameFrom(std::string_view text) {
  std::string out;
  if (!text.empty() && !IsWordStart(text[0])) out += '_';
  for (char c : text) out += IsWordChar(c) ? c : '_';
  return out;
}

std::string FrontendAttribute(std::string_view key, std::string_view value) {
  const auto quoted = [](std::string_view text) { return "\"" + Escape(text) + "\""; };
  Lexer name(key, "key"), word(value, "value");
  const bool is_word = name.token().kind == Tok::kWord && name.Next().text == key;
  bool in_braces = false;
  if (word.Is('{') && value.ends_with('}')) {
    const auto braces = word.RawBraces("a value");
    in_braces = braces && *braces == value;
  }
  return (is_word ? std::string(key) : quoted(key)) + "=" + (in_braces ? std::string(value) : quoted(value));
}

std::vector<std::pair<std::string, std::string>> FrontendAttributesIn(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> out;
  Lexer lex(text, "frontend_attributes");
  while (lex.token().kind == Tok::kWord || lex.token().kind == Tok::kString) {
    std::string key = Unescape(lex.Next().text);
    if (!lex.Accept('=')) break;
    if (lex.Is('{')) {
      const auto braces = lex.RawBraces("a value");
      if (!braces) break;
      out.emplace_back(std::move(key), *braces);
    } else {
      out.emplace_back(std::move(key), Unescape(lex.Next().text));
    }
    lex.Accept(',');
  }
  return out;
}

}  // namespace krafla::hlo_text
