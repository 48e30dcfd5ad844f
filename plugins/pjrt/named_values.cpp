// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/named_values.h"

namespace krafla::pjrt {

PJRT_NamedValue& NamedValues::New(std::string_view name, PJRT_NamedValue_Type type, std::size_t size) {
  const std::string& kept = strings_.emplace_back(name);
  PJRT_NamedValue& value = values_.emplace_back();
  value = {};
  value.struct_size = sizeof(PJRT_NamedValue);
  value.name = kept.data();
  value.name_size = kept.size();
  value.type = type;
  value.value_size = size;
  return value;
}

void NamedValues::Add(std::string_view name, std::string_view value) {
  const std::string& kept = strings_.emplace_back(value);
  New(name, kPjrtString, kept.size()).string_value = kept.c_str();
}
void NamedValues::Add(std::string_view name, int64_t value) { New(name, kPjrtInt64, 1).int64_value = value; }
void NamedValues::Add(std::string_view name, std::vector<int64_t> value) {
  const std::vector<int64_t>& kept = lists_.emplace_back(std::move(value));
  New(name, kPjrtInt64List, kept.size()).int64_array_value = kept.data();
}
void NamedValues::Add(std::string_view name, float value) { New(name, kPjrtFloat, 1).float_value = value; }
void NamedValues::Add(std::string_view name, bool value) { New(name, kPjrtBool, 1).bool_value = value; }

namespace {

const PJRT_NamedValue* Find(const PJRT_NamedValue* values, std::size_t count, std::string_view name) {
  for (std::size_t i = 0; i < count; ++i)
    if (std::string_view(values[i].name, values[i].name_size) == name) return &values[i];
  return nullptr;
}

}  // namespace

Result<std::optional<int64_t>> FindInteger(const PJRT_NamedValue* values, std::size_t count, std::string_view name) {
  const PJRT_NamedValue* v = Find(values, count, name);
  if (v == nullptr) return std::nullopt;
  if (v->type != kPjrtInt64) return InvalidArgument("The option '{}' has to be an integer.", name);
  return v->int64_value;
}

Result<std::optional<std::string>> FindText(const PJRT_NamedValue* values, std::size_t count, std::string_view name) {
  const PJRT_NamedValue* v = Find(values, count, name);
  if (v == nullptr) return std::nullopt;
  if (v->type != kPjrtString) return InvalidArgument("The option '{}' has to be a text.", name);
  return std::string(v->string_value, v->value_size);
}

}  // namespace krafla::pjrt
