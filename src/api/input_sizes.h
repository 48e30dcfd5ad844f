// SPDX-License-Identifier: Apache-2.0
// Sizes of a program's inputs as JSON, for the C interface and the command alike.
#pragma once

#include <nlohmann/json.hpp>

#include "krafla/program_inputs.h"

namespace krafla {

// [2, "height", null]: an open size is its name, or null; null alone where their number is open.
inline nlohmann::ordered_json SizesAsJson(const ProgramInput& input) {
  if (!input.has_rank) return nullptr;
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const auto& [size, name] : input.dimensions)
    if (size >= 0) out.push_back(size);
    else if (!name.empty()) out.push_back(name);
    else out.push_back(nullptr);
  return out;
}

}  // namespace krafla
