// SPDX-License-Identifier: Apache-2.0
// Scalar computations (of map, reduce, ...) applied to whole arrays.
#pragma once

#include <optional>
#include <span>

#include "passes/rewrite.h"

namespace krafla {

// What `scalar_function` makes of each element of `arguments`, arrays of dimensions `dims`, one a parameter. Null
// where the function does more than elementwise arithmetic on scalars.
Instruction* LiftInto(Rewriter& rewrite, const Computation& scalar_function, std::span<Instruction* const> arguments,
                      std::span<const int64_t> dims);

// The same for a function of one result or a tuple of them; empty where LiftInto is null.
std::vector<Instruction*> LiftResultsInto(Rewriter& rewrite, const Computation& scalar_function,
                                          std::span<Instruction* const> arguments, std::span<const int64_t> dims);

// The opcode of a computation that applies one binary instruction to its two parameters.
// Parameter 0 is the left operand, unless the operation commutes.
std::optional<Opcode> BinaryOpcode(const Computation& computation);

}  // namespace krafla
