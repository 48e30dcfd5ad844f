// SPDX-License-Identifier: Apache-2.0
// Reading JSON that nobody has checked: no exceptions, no deep recursion, every wrong kind an error that names the key.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "krafla/status.h"

namespace krafla {

using Json = nlohmann::json;

// An object. `where` is for messages.
Result<Json> ParseJsonObject(std::string_view text, std::string_view where);

// A member, or null where there is none.
inline const Json* FindMember(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}
// Missing members give `otherwise`, members of another kind an error.
Result<std::string> StringMember(const Json& object, const char* key, std::string otherwise = {});
Result<int64_t> IntMember(const Json& object, const char* key, int64_t otherwise);
Result<double> RealMember(const Json& object, const char* key, double otherwise);
Result<int64_t> AsInt(const Json& value, std::string_view what);

}  // namespace krafla
