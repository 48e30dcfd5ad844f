// SPDX-License-Identifier: Apache-2.0
// krafla completion SHELL.
#include <CLI/CLI.hpp>

#include "api/client.h"
#include "krafla/status.h"
#include "passes/pipeline.h"
#include "shell.h"

namespace krafla::cli {
namespace {

std::string JoinWords(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += Format("{}{}", out.empty() ? "" : " ", word);
  return out;
}

// The words that an option's value may begin with; empty: none are known.
std::vector<std::string> ValuesOf(const OptionText& option) {
  if (!option.choices.empty()) return option.choices;
  if (option.value == "SELECTOR") return {"cpu", "vulkan"};
  if (option.value == "NAMES") {
    std::vector<std::string> out(std::begin(kOfAllDevices), std::end(kOfAllDevices));
    for (const FeatureName& feature : FeatureNames()) out.emplace_back(feature.name);
    for (const PassInfo& pass : AllPasses()) out.emplace_back(pass.name);
    return out;
  }
  return {};
}

std::string ForBash(const std::vector<CommandText>& commands) {
  std::string names, values, options;
  for (const CommandText& command : commands) {
    names += Format("{}{}", names.empty() ? "" : " ", command.name);
    std::string flags;
    for (const OptionText& option : command.options) {
      std::string pattern;
      for (const std::string& flag : option.flags) {
        flags += Format(" {}", flag);
        pattern += Format("{}'{} {}'", pattern.empty() ? "" : "|", command.name, flag);
      }
      if (option.flags.empty() || option.value.empty()) continue;
      const std::string words = JoinWords(ValuesOf(option));
      values += Format("    {}) {};;\n", pattern,
                       !words.empty()      ? Format("COMPREPLY=($(compgen -W '{}' -- \"$cur\")); return", words)
                       : option.takes_file ? "COMPREPLY=($(compgen -f -- \"$cur\")); return"
                                           : "return");
    }
    bool files = false;
    for (const OptionText& option : command.options) files = files || (option.flags.empty() && option.choices.empty());
    std::string words;
    for (const OptionText& option : command.options)
      if (option.flags.empty()) words += JoinWords(option.choices);
    options += Format("    {}) flags='{}' words='{}' files={};;\n", command.name, flags.substr(flags.empty() ? 0 : 1),
                      words, files ? 1 : 0);
  }
  return Format(R"sh(# bash completion for krafla, written by krafla completion bash
_krafla() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} command= flags= words= files=0 i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case ${{COMP_WORDS[i]}} in
      help) ;;
      -*) ;;
      *) command=${{COMP_WORDS[i]}}; break;;
    esac
  done
  if [[ -z $command ]]; then
    COMPREPLY=($(compgen -W '{} help --help --version' -- "$cur"))
    return
  fi
  case "$command $prev" in
{}  esac
  case $command in
{}  esac
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$cur"))
  elif [[ -n $words ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
  elif ((files)); then
    COMPREPLY=($(compgen -f -- "$cur"))
  fi
}}
complete -o filenames -o bashdefault -F _krafla krafla
)sh",
                names, values, options);
}

// Within '[...]' of _arguments and within single quotes.
std::string ForZshText(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '\'') out += "'\\''";
    else if (c == '[' || c == ']' || c == ':' || c == '\\') out += Format("\\{}", c);
    else out += c;
  }
  return out;
}

std::string ForZsh(const std::vector<CommandText>& commands) {
  std::string names, cases;
  for (const CommandText& command : commands) {
    names += Format("    '{}:{}'\n", command.name, ForZshText(command.doc));
    std::string arguments;
    for (const OptionText& option : command.options) {
      const std::string words = JoinWords(ValuesOf(option));
      const std::string action = !words.empty() ? Format("({})", words) : option.takes_file ? "_files" : " ";
      for (const std::string& flag : option.flags)
        arguments += Format(" \\\n        '*{}[{}]{}'", flag, ForZshText(option.doc),
                            option.value.empty() ? "" : Format(":{}:{}", option.value, action));
      if (option.flags.empty()) arguments += Format(" \\\n        '*:{}:{}'", option.name, action);
    }
    cases += Format("      {})\n        _arguments{};;\n", command.name, arguments);
  }
  return Format(R"sh(#compdef krafla
# zsh completion for krafla, written by krafla completion zsh
_krafla() {{
  local -a commands
  commands=(
{}  )
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  ((CURRENT--))
  case $command in
{}  esac
}}
_krafla "$@"
)sh",
                names, cases);
}

std::string ForFishText(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string ForFish(const std::vector<CommandText>& commands) {
  std::string out = "# fish completion for krafla, written by krafla completion fish\n";
  std::string names;
  for (const CommandText& command : commands) names += Format("{}{}", names.empty() ? "" : " ", command.name);
  for (const CommandText& command : commands)
    out += Format("complete -c krafla -f -n 'not __fish_seen_subcommand_from {}' -a {} -d '{}'\n", names, command.name,
                  ForFishText(command.doc));
  for (const CommandText& command : commands) {
    const std::string when = Format("complete -c krafla -n '__fish_seen_subcommand_from {}'", command.name);
    bool files = false;
    for (const OptionText& option : command.options) {
      const std::string words = JoinWords(ValuesOf(option));
      if (option.flags.empty()) {
        files = files || words.empty();
        if (!words.empty()) out += Format("{} -f -a '{}'\n", when, words);
        continue;
      }
      out += when;
      for (const std::string& flag : option.flags)
        out += flag.starts_with("--") ? Format(" -l {}", flag.substr(2)) : Format(" -s {}", flag.substr(1));
      if (!option.value.empty()) out += " -r";
      if (!words.empty()) out += Format(" -f -a '{}'", words);
      else if (!option.value.empty()) out += option.takes_file ? " -F" : " -f";
      out += Format(" -d '{}'\n", ForFishText(option.doc));
    }
    if (files) out += when + " -F\n";
  }
  return out;
}

}  // namespace

std::string CompletionFor(std::string_view shell, const CLI::App& app) {
  const std::vector<CommandText> commands = TextOf(app);
  if (shell == "bash") return ForBash(commands);
  if (shell == "zsh") return ForZsh(commands);
  if (shell == "fish") return ForFish(commands);
  return "";
}

}  // namespace krafla::cli
