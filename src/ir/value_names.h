// SPDX-License-Identifier: Apache-2.0
// What people call a program's arguments and results. HLO has no names for results and only made-up ones for the
// parameters that a JAX program brings, so readers keep those of the source beside them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"

namespace krafla {

// The header's frontend attribute that holds the names of results.
inline constexpr std::string_view kResultNames = "krafla.result_names";

// The value of `key` in metadata as HLO text writes it: op_name="jit(f)/dot" source_file="f.py" source_line=12.
std::string MetadataValue(std::string_view metadata, std::string_view key);

// Of the leaves of the entry's parameters, depth first: op_name in a parameter's metadata, else the instruction's name;
// leaves of a tuple have their place behind it, "state.0". Those of several that are called the same have their number
// behind it.
std::vector<std::string> ArgumentNames(const Module& module);
// Of the leaves of the result: the header's frontend attribute krafla.result_names, a list with commas between, where a
// backslash makes a comma or a backslash part of a name; "output0" and so on where it has none.
std::vector<std::string> ResultNames(const Module& module);
// Writes that attribute. An empty name stands for none.
void SetResultNames(Module& module, std::span<const std::string> names);

}  // namespace krafla
