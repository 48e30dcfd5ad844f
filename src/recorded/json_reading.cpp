// SPDX-License-Identifier: Apache-2.0
#include "recorded/json_reading.h"

#include <limits>

namespace krafla {
namespace {

// Some functions of the JSON library recurse once a level.
constexpr int kMaxDepth = 100;

int Depth(std::string_view text) {
  int depth = 0, deepest = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      else if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

Result<Json> ParseJsonObject(std::string_view text, std::string_view where) {
  if (Depth(text) > kMaxDepth)
    return InvalidArgument("{}: The JSON is nested deeper than the limit of {}.", where, kMaxDepth);
  Json out = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (out.is_discarded()) return InvalidArgument("{}: The text is not JSON.", where);
  if (!out.is_object()) return InvalidArgument("{}: The JSON is not an object.", where);
  return out;
}

Result<std::string> StringMember(const Json& object, const char* key, std::string otherwise) {
  const Json* value = FindMember(object, key);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) return InvalidArgument("'{}' is not a string.", key);
  return value->get_ref<const std::string&>();
}

Result<int64_t> AsInt(const Json& value, std::string_view what) {
  if (value.is_number_unsigned()) {
    uint64_t n = value.get<uint64_t>();
    if (n <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return static_cast<int64_t>(n);
  } else if (value.is_number_integer()) {
    return value.get<int64_t>();
  }
  return InvalidArgument("'{}' is not an integer of 64 bits.", what);
}

Result<int64_t> IntMember(const Json& object, const char* key, int64_t otherwise) {
  const Json* value = FindMember(object, key);
  if (value == nullptr) return otherwise;
  return AsInt(*value, key);
}

Result<double> RealMember(const Json& object, const char* key, double otherwise) {
  const Json* value = FindMember(object, key);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) return InvalidArgument("'{}' is not a number.", key);
  return value->get<double>();
}

}  // namespace krafla
