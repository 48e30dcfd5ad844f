// SPDX-License-Identifier: Apache-2.0
// Structs as JSON objects, by VisitFields: an overload for each struct calls visit(name, field), or visit(name, field,
// range), for each field. Enums have an overload of NamesOf.
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "krafla/status.h"

namespace krafla {

using Json = nlohmann::ordered_json;
using Names = std::span<const std::string_view>;

// VisitFields is written once for readers and writers: `Self` is const for the one and not for the other.
template <typename Self, typename T>
concept Is = std::same_as<std::remove_const_t<Self>, T>;

// What a number may be.
struct FieldRange {
  double least = 0, most = 0;
  bool power_of_two = false;
};

template <typename T>
constexpr bool kIsVector = false;
template <typename T>
constexpr bool kIsVector<std::vector<T>> = true;

template <typename T>
Json ToJsonValue(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return std::string(NamesOf(value)[static_cast<std::size_t>(value)]);
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    return value;
  } else if constexpr (kIsVector<T> || std::is_array_v<T>) {
    Json out = Json::array();
    for (const auto& item : value) out.push_back(ToJsonValue(item));
    return out;
  } else {
    Json out = Json::object();
    VisitFields(value, [&](const char* name, const auto& field, auto...) { out[name] = ToJsonValue(field); });
    return out;
  }
}

// Reads a text into structs. Keys that are missing leave their fields as they are; unknown ones are errors.
class JsonReader {
 public:
  // `what` the text is: "device profile", for messages.
  explicit JsonReader(std::string_view what) : what_(what) {}

  template <typename T>
  Result<> Read(std::string_view text, T& value) const {
    KRAFLA_ASSIGN(const Json parsed, Parse(text));
    return Field(parsed, Format("The {}", what_), value);
  }

 private:
  template <typename T>
  Result<> Field(const Json& json, const std::string& where, T& value) const {
    if constexpr (std::is_enum_v<T>) {
      Names names = NamesOf(value);
      auto it = json.is_string() ? std::ranges::find(names, json.get_ref<const std::string&>()) : names.end();
      if (it == names.end()) {
        return InvalidArgument("{} is {}, which is no name that this field has.", where, Text(json));
      }
      value = static_cast<T>(it - names.begin());
    } else if constexpr (std::is_same_v<T, bool>) {
      if (!json.is_boolean()) return InvalidArgument("{} is {}, not a boolean.", where, Text(json));
      value = json.get<bool>();
    } else if constexpr (std::is_integral_v<T>) {
      if (!json.is_number_unsigned() || json.get<uint64_t>() > uint64_t{std::numeric_limits<T>::max()}) {
        return InvalidArgument("{} is {}, not an integer between 0 and {}.", where, Text(json),
                               std::numeric_limits<T>::max());
      }
      value = json.get<T>();
    } else if constexpr (std::is_floating_point_v<T>) {
      if (!json.is_number()) return InvalidArgument("{} is {}, not a number.", where, Text(json));
      value = json.get<T>();
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!json.is_string()) return InvalidArgument("{} is {}, not a string.", where, Text(json));
      value = json.get<std::string>();
    } else if constexpr (kIsVector<T>) {
      if (!json.is_array()) return InvalidArgument("{} is not an array.", where);
      value.clear();
      for (std::size_t i = 0; i < json.size(); ++i) {
        value.emplace_back();
        KRAFLA_TRY(Field(json[i], Format("{}[{}]", where, i), value.back()));
      }
    } else if constexpr (std::is_array_v<T>) {
      if (!json.is_array() || json.size() != std::extent_v<T>) {
        return InvalidArgument("{} is not an array of {}.", where, std::extent_v<T>);
      }
      for (std::size_t i = 0; i < json.size(); ++i) {
        KRAFLA_TRY(Field(json[i], Format("{}[{}]", where, i), value[i]));
      }
    } else {
      return Object(json, where, value);
    }
    return {};
  }

  // What a struct's fields have in common, and what its object's keys are told from.
  struct Members {
    const Json& json;
    const std::string& where;
    std::set<std::string_view> known = {};
    Result<> status = {};

    // The value of a field; null: there is none, or an earlier one was wrong.
    const Json* Find(const char* name);
    std::string Where(const char* name) const;
    // That no key is left over.
    Result<> Finish();
  };

  template <typename T>
  Result<> Object(const Json& json, const std::string& where, T& value) const {
    if (!json.is_object()) return InvalidArgument("{} is not an object.", where);
    Members members{json, where};
    VisitFields(value, [&](const char* name, auto& field, auto... range) {
      const Json* found = members.Find(name);
      if (found == nullptr) return;
      const std::string here = members.Where(name);
      members.status = Field(*found, here, field);
      if constexpr (sizeof...(range) > 0) {
        if (members.status) members.status = Within(field, here, range...);
      }
    });
    return members.Finish();
  }

  template <typename T>
  Result<> Within(T value, const std::string& where, const FieldRange& range) const {
    bool good = static_cast<double>(value) >= range.least && static_cast<double>(value) <= range.most;
    if constexpr (std::is_integral_v<T>)
      good = good && (!range.power_of_two || std::has_single_bit(static_cast<uint64_t>(value)));
    if (good) return {};
    return InvalidArgument("{} is {}, not {}between {} and {}.", where, value,
                           range.power_of_two ? "a power of two " : "", range.least, range.most);
  }

  Result<Json> Parse(std::string_view text) const;
  static std::string Text(const Json& json);

  std::string_view what_;
};

}  // namespace krafla
