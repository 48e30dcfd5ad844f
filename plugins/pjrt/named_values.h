// SPDX-License-Identifier: Apache-2.0
// Lists of names with values, as the interface passes them in and out.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "krafla/status.h"
#include "plugins/pjrt/abi/pjrt_types.h"

namespace krafla::pjrt {

// A list to hand out; it owns what it points to. Moving keeps pointers valid.
class NamedValues {
 public:
  void Add(std::string_view name, std::string_view value);
  void Add(std::string_view name, const char* value) { Add(name, std::string_view(value)); }
  void Add(std::string_view name, int64_t value);
  void Add(std::string_view name, std::vector<int64_t> value);
  void Add(std::string_view name, float value);
  void Add(std::string_view name, bool value);

  const PJRT_NamedValue* data() const { return values_.data(); }
  std::size_t size() const { return values_.size(); }

 private:
  PJRT_NamedValue& New(std::string_view name, PJRT_NamedValue_Type type, std::size_t size);

  std::vector<PJRT_NamedValue> values_;
  std::deque<std::string> strings_;
  std::deque<std::vector<int64_t>> lists_;
};

// The value under `name`, if it is there. INVALID_ARGUMENT if it has another type.
Result<std::optional<int64_t>> FindInteger(const PJRT_NamedValue* values, std::size_t count, std::string_view name);
Result<std::optional<std::string>> FindText(const PJRT_NamedValue* values, std::size_t count, std::string_view name);

}  // namespace krafla::pjrt
