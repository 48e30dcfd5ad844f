// SPDX-License-Identifier: Apache-2.0
// What an option's number may be.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "krafla/status.h"

namespace krafla::cli {

// As CLI::Range, which takes nan: that is below no limit and above none.
inline CLI::Validator NumberBetween(double low, double high) {
  const std::string within = Format("FLOAT in [{:g} - {:g}]", low, high);
  return CLI::Validator(
      [low, high, within](std::string& text) -> std::string {
        double value = 0;
        if (CLI::detail::lexical_cast(text, value) && value >= low && value <= high) return {};
        return Format("Value {} not in {}", text, within);
      },
      within);
}

}  // namespace krafla::cli
