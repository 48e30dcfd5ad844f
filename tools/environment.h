// SPDX-License-Identifier: Apache-2.0
// The environment variables that the command reads.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace krafla::cli {

struct Variable {
  std::string_view names, values, brief, meaning;  // values and meaning are Markdown
};
std::span<const Variable> Variables();

struct EnvironmentOptions {
  bool json = false, markdown = false;
};
// Each variable with its value; as Markdown the table of docs/environment.md.
int PrintEnvironment(const EnvironmentOptions& options);

}  // namespace krafla::cli
