// SPDX-License-Identifier: Apache-2.0
// Scalar computations (of map, reduce, ...) applied to whole arrays.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "passes/rewrite.h"

namespace krafla {

// The computation that does to arrays what a scalar one that a lifted function calls does to their elements; null:
// none.
using LiftedCallee = std::function<Computation*(Computation& callee)>;

// What `scalar_function` makes of each element of `arguments`, arrays of dimensions `dims`, one per parameter. Null
// where the function does more than elementwise arithmetic on scalars.
Instruction* LiftInto(Rewriter& rewrite, const Computation& scalar_function, std::span<Instruction* const> arguments,
                      std::span<const int64_t> dims, const LiftedCallee& callee = {});

// The same for a function of one result or a tuple of them; empty where LiftInto is null.
std::vector<Instruction*> LiftResultsInto(Rewriter& rewrite, const Computation& scalar_function,
                                          std::span<Instruction* const> arguments, std::span<const int64_t> dims,
                                          const LiftedCallee& callee = {});

// The opcode of a computation that applies one binary instruction to its two parameters.
// Parameter 0 is the left operand, unless the operation commutes.
std::optional<Opcode> BinaryOpcode(const Computation& computation);

}  // namespace krafla
