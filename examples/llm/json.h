// SPDX-License-Identifier: Apache-2.0
// JSON files, with what is missing or of another kind as an error instead of an exception.
#pragma once

#include <krafla/status.h>

#include <nlohmann/json.hpp>

#include <fstream>
#include <iterator>
#include <string>

namespace llm {

using nlohmann::json;

inline krafla::Result<json> ParseJson(const std::string& text, const std::string& what) {
  json out = json::parse(text, nullptr, false);
  if (out.is_discarded()) return krafla::InvalidArgument("{} is no JSON.", what);
  return out;
}

inline krafla::Result<json> ReadJson(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return krafla::NotFound("{} cannot be read.", path);
  return ParseJson(std::string(std::istreambuf_iterator<char>(file), {}), path);
}

// from["key"] as a T: a number, a text, a list, a truth value.
template <typename T>
krafla::Result<T> Get(const json& from, const char* key) {
  if (!from.is_object() || !from.contains(key)) return krafla::InvalidArgument("The JSON has no '{}'.", key);
  try {
    return from.at(key).get<T>();
  } catch (const json::exception&) {
    return krafla::InvalidArgument("The JSON has '{}' of another kind than is expected there.", key);
  }
}

// The same where it may be missing or null.
template <typename T>
T GetOr(const json& from, const char* key, T otherwise) {
  if (!from.is_object() || !from.contains(key) || from.at(key).is_null()) return otherwise;
  try {
    return from.at(key).get<T>();
  } catch (const json::exception&) { return otherwise; }
}

}  // namespace llm
