// SPDX-License-Identifier: Apache-2.0
#include "results.h"

#include <cmath>
#include <cstdio>

#include "hlo_io/element_codec.h"
#include "hlo_io/hlo_text/hlo_text.h"

namespace krafla::cli {
namespace {

bool IsNumber(std::string_view word) { return word.find_first_not_of("0123456789+-.e") == std::string_view::npos; }

}  // namespace

void PrintJsonLine(const nlohmann::ordered_json& line) {
  std::printf("%s\n", line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

std::string JsonOf(const Literal& literal) {
  if (!literal.shape().IsArray()) return "null";
  const std::string text = PrintLiteral(literal);
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '{' || c == '(') out += '[';
    if (c == '}' || c == ')') out += ']';
    if (c == ',') out += c;
    if (std::string_view("{}(), ").find(c) != std::string_view::npos) {
      ++at;
      continue;
    }
    std::size_t end = text.find_first_of("{}(), ", at);
    if (end == std::string::npos) end = text.size();
    const std::string_view word = std::string_view(text).substr(at, end - at);
    // Of a NaN the bits follow in parentheses.
    if (word.ends_with("nan")) out += "\"nan\"";
    else if (IsNumber(word) || word == "true" || word == "false") out += word;
    else out += Format("\"{}\"", word);
    if (word.ends_with("nan") && end < text.size() && text[end] == '(') end = text.find(')', end) + 1;
    at = end;
  }
  return out;
}

bool IsAllNan(const Literal& literal) {
  const ElementType type = RealPart(literal.shape().element_type());
  if (!literal.shape().IsArray() || !IsFloat(type) || literal.shape().element_count() == 0) return false;
  const auto size = static_cast<std::size_t>(StorageBytes(type));
  for (std::size_t at = 0; at + size <= literal.bytes().size(); at += size)
    if (!std::isnan(DecodeReal(type, LoadBits(literal.bytes().data() + at, static_cast<int>(size))))) return false;
  return true;
}

}  // namespace krafla::cli
