// SPDX-License-Identifier: Apache-2.0
#include "device/json_fields.h"

namespace krafla {

Result<Json> JsonReader::Parse(std::string_view text) const {
  // No such text nests deeper than 4; the parser itself does without recursion, its values do not.
  int depth = 0, deepest = 0;
  for (char c : text) {
    if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    if (c == ']' || c == '}') --depth;
  }
  if (deepest > 64) return InvalidArgument("A {} nests {} levels deep; the limit is 64.", what_, deepest);
  Json parsed = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return InvalidArgument("The text of a {} is not JSON.", what_);
  return parsed;
}

std::string JsonReader::Text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 200);
}

const Json* JsonReader::Members::Find(const char* name) {
  known.insert(name);
  const auto at = json.find(name);
  return status && at != json.end() ? &*at : nullptr;
}

std::string JsonReader::Members::Where(const char* name) const { return where + "." + name; }

Result<> JsonReader::Members::Finish() {
  KRAFLA_TRY(std::move(status));
  for (const auto& [key, unused] : json.items())
    if (!known.contains(key)) return InvalidArgument("{} has the unknown key '{}'.", where, key);
  return {};
}

}  // namespace krafla
