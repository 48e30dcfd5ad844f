// SPDX-License-Identifier: Apache-2.0
// Pieces of the printer: text is appended to one string.
#pragma once

#include <string>
#include <string_view>

#include "hlo_io/hlo_text/hlo_text.h"
#include "ir/module.h"

namespace krafla::hlo_text {

// "{0,1}"
template <typename List>
void AppendList(std::string& out, const List& list) {
  out += '{';
  bool first = true;
  for (auto value : list) {
    if (!first) out += ',';
    first = false;
    out += std::to_string(value);
  }
  out += '}';
}

// A name as it can be read again: bare, "%name", or "%\"any text\"".
void AppendName(std::string& out, std::string_view name, bool percent);
// Shortest text that reads back to the same bits; the name of NaN with its payload.
void AppendReal(std::string& out, ElementType type, uint64_t bits);
void AppendDouble(std::string& out, double value);
// `elide_over`: constants of more elements are "{...}"; negative: none.
void AppendLiteral(std::string& out, const Literal& literal, int64_t elide_over);
// ", key=value" for everything that the attributes and called computations say.
void AppendAttributes(std::string& out, const Instruction& instruction, const HloPrintOptions& options);

}  // namespace krafla::hlo_text
