// SPDX-License-Identifier: Apache-2.0
// The tree of commands as plain data.
#include <CLI/CLI.hpp>

#include "krafla/status.h"
#include "shell.h"

namespace krafla::cli {
namespace {

// "TEXT:{hlo,proto}" of an option that takes certain words.
std::vector<std::string> ChoicesOf(const std::string& type) {
  std::vector<std::string> out;
  const std::size_t begin = type.find('{'), end = type.find('}', begin);
  if (begin == std::string::npos || end == std::string::npos) return out;
  std::string word;
  for (std::size_t at = begin + 1; at <= end; ++at) {
    if (type[at] != ',' && type[at] != '}') {
      word += type[at];
      continue;
    }
    out.push_back(std::move(word));
    word.clear();
  }
  return out;
}

OptionText TextOfOption(const CLI::Option& option) {
  OptionText out;
  for (const std::string& name : option.get_snames()) out.flags.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) out.flags.push_back("--" + name);
  out.doc = option.get_description();
  if (out.flags.empty()) out.name = option.get_name(true);
  if (option.get_items_expected_max() == 0) return out;  // a flag
  const std::string type = option.get_type_name();
  out.choices = ChoicesOf(type);
  out.takes_file = type.starts_with("FILE") || type.starts_with("FOLDER") || out.flags.empty();
  const std::string word = type.substr(0, type.find_first_of(":{ "));
  out.value = word.empty() ? "VALUE" : word;
  return out;
}

}  // namespace

std::vector<CommandText> TextOf(const CLI::App& app) {
  std::vector<CommandText> out;
  for (const CLI::App* command : app.get_subcommands({})) {
    CommandText one{command->get_name(), command->get_description(), {}};
    for (const CLI::Option* option : command->get_options()) one.options.push_back(TextOfOption(*option));
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace krafla::cli
