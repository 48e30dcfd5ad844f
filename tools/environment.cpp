// SPDX-License-Identifier: Apache-2.0
#include "environment.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "command.h"
#include "results.h"

namespace krafla::cli {
namespace {

constexpr Variable kVariables[] = {
#define KRAFLA_VARIABLE(names, values, brief, meaning) {names, values, brief, meaning},
#include "environment.def"
};

std::vector<std::string> SplitList(std::string_view list) {
  std::vector<std::string> out;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(", "), list.size());
    out.emplace_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 2, list.size()));
  }
  return out;
}

std::string WithoutMarks(std::string_view markdown) {
  std::string out;
  for (char c : markdown)
    if (c != '`') out += c;
  return out;
}

}  // namespace

std::span<const Variable> Variables() { return kVariables; }

int PrintEnvironment(const EnvironmentOptions& options) {
  if (options.markdown) std::printf("| variable | values | meaning |\n|---|---|---|\n");
  for (const Variable& v : kVariables) {
    if (options.markdown) {
      std::string names;
      for (const std::string& name : SplitList(v.names)) names += Format("{}`{}`", names.empty() ? "" : ", ", name);
      std::printf("| %s | %s | %s |\n", names.c_str(), std::string(v.values).c_str(), std::string(v.meaning).c_str());
      continue;
    }
    for (const std::string& name : SplitList(v.names)) {
      const char* value = std::getenv(name.c_str());
      if (options.json) {
        nlohmann::ordered_json line = {
            {"variable", name}, {"values", WithoutMarks(v.values)}, {"meaning", WithoutMarks(v.meaning)}};
        if (value != nullptr) line["value"] = value;
        PrintJsonLine(line);
      } else {
        std::printf("%-20s %-20s %s\n", name.c_str(), value != nullptr ? value : "(unset)",
                    std::string(v.brief).c_str());
      }
    }
  }
  return kRight;
}

}  // namespace krafla::cli
