// SPDX-License-Identifier: Apache-2.0
// The combiner of pairs (value, index) by which a window of a select-and-scatter selects
// (passes/expand/select_and_scatter_expander.cpp).
#pragma once

#include <optional>

#include "plan/element_program.h"

namespace krafla::plan {

struct WindowSelection {
  // How the first of the two values compares with the second where it stays; nothing: it is no single comparison.
  std::optional<ComparisonDirection> direction = std::nullopt;
  bool is_of_floats = false;
};

// Nothing: it is another combiner.
std::optional<WindowSelection> MatchWindowSelection(const ElementProgram& combiner);

}  // namespace krafla::plan
