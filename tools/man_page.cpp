// SPDX-License-Identifier: Apache-2.0
// krafla man: krafla(1), from the same tree as --help.
#include <CLI/CLI.hpp>

#include "command.h"
#include "environment.h"
#include "shell.h"

namespace krafla::cli {
namespace {

// A line of text: no request at its beginning, no escapes but ours.
std::string Troff(std::string_view text) {
  std::string out;
  if (text.starts_with('.') || text.starts_with('\'')) out += "\\&";
  for (char c : text) {
    if (c == '\\') out += "\\e";
    else if (c == '-') out += "\\-";
    else if (c == '\n') out += "\n.br\n";
    else if (c != '`') out += c;
  }
  return out;
}

std::string ItemOf(const OptionText& option) {
  std::string head;
  for (const std::string& flag : option.flags) head += Format("{}\\fB{}\\fR", head.empty() ? "" : ", ", Troff(flag));
  if (option.flags.empty()) head = Format("\\fI{}\\fR", Troff(option.name));
  std::string value = option.value;
  if (!option.choices.empty()) {
    value.clear();
    for (const std::string& choice : option.choices) value += (value.empty() ? "" : "|") + choice;
  }
  if (!option.flags.empty() && !value.empty()) head += Format(" \\fI{}\\fR", Troff(value));
  return Format(".TP\n{}\n{}\n", head, Troff(option.doc));
}

}  // namespace

std::string ManPage(const CLI::App& app) {
  std::string out = Format(
      ".TH KRAFLA 1 \"\" \"krafla {}\" \"User Commands\"\n.SH NAME\nkrafla \\- compile and run HLO and StableHLO "
      "programs on Vulkan GPUs and CPUs\n.SH SYNOPSIS\n\\fBkrafla\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR] "
      "[\\fIMODULE\\fR]\n.SH DESCRIPTION\n{}\n.SH COMMANDS\n",
      KRAFLA_VERSION, Troff(app.get_description()));
  for (const CommandText& command : TextOf(app)) {
    out += Format(".SS krafla {}\n{}.\n", Troff(command.name), Troff(command.doc));
    for (const OptionText& option : command.options)
      if (option.flags.empty()) out += ItemOf(option);
    for (const OptionText& option : command.options)
      if (!option.flags.empty() && option.flags.back() != "--help") out += ItemOf(option);
  }
  out += ".SH EXIT STATUS\n";
  for (const ExitCodeText& code : kExitCodes)
    out += Format(".TP\n{}\n{}\n", static_cast<int>(code.code), Troff(code.text));
  out += ".SH ENVIRONMENT\n";
  for (const Variable& v : Variables())
    out += Format(".TP\n\\fB{}\\fR\n{} ({})\n", Troff(v.names), Troff(v.meaning), Troff(v.values));
  out +=
      ".SH NOTES\nResults go to standard output, everything else to standard error. With \\fB\\-\\-json\\fR each line "
      "of standard output is a JSON object.\n";
  return out;
}

}  // namespace krafla::cli
