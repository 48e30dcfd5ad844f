// SPDX-License-Identifier: Apache-2.0
// Literals, whose tuples nest, as executables take and give them: a list of leaves, depth first.
#pragma once

#include <cstddef>
#include <vector>

#include "krafla/literal.h"
#include "krafla/status.h"

namespace krafla {

// Leaves of an argument, tokens included, as executables take them.
void AppendLeaves(const Literal& literal, std::vector<const Literal*>& out);

// A literal of `shape` from leaves, the next of which is leaves[next].
Result<Literal> Assemble(const Shape& shape, std::vector<Literal>& leaves, std::size_t& next);

}  // namespace krafla
