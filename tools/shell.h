// SPDX-License-Identifier: Apache-2.0
// What is generated from the tree of commands and options: completion for shells, and the manual page.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace krafla::cli {

struct OptionText {
  std::vector<std::string> flags;    // "-d", "--device"; empty: a positional argument
  std::string name, value, doc;      // "module"; "SELECTOR", or empty for a flag
  std::vector<std::string> choices;  // the words that it takes; empty: others
  bool takes_file = false;
};
struct CommandText {
  std::string name, doc;
  std::vector<OptionText> options;
};
std::vector<CommandText> TextOf(const CLI::App& app);

// For bash, zsh or fish; empty for another shell.
std::string CompletionFor(std::string_view shell, const CLI::App& app);
// As troff, section 1.
std::string ManPage(const CLI::App& app);

// As one Markdown list, for documents and tests: "bench --iters".
inline constexpr const char* kShells[] = {"bash", "zsh", "fish"};

}  // namespace krafla::cli
