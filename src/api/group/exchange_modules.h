// SPDX-License-Identifier: Apache-2.0
// What a collective does as programs of one device, over the arrays of several members as if they were its arguments.
// Arrays are seen as the collective divides them; their bytes are those of the members' dense row-major arrays.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/collective.h"
#include "ir/module.h"
#include "krafla/status.h"

namespace krafla {

// Member by member the arguments are its operand leaves. The results are, for each of `ranks`, its result leaves.
// `sources`: of a collective-permute, by rank, the rank that sends to it, or -1. None where there is no such program: a
// ragged-all-to-all, a collective of empty arrays.
Result<std::optional<std::unique_ptr<Module>>> ExchangeModule(const Instruction& instruction, int64_t members,
                                                              std::span<const int64_t> ranks,
                                                              std::span<const int64_t> sources);
// `elements` of each of `members` arrays combined by `reduction` in the order of ranks.
Result<std::unique_ptr<Module>> CombineModule(const Computation& reduction, int64_t members, int64_t elements);

// A computation and those that it calls, copied into another module.
Result<Computation*> CopyInto(Module& module, const Computation& from, int depth = 0);

}  // namespace krafla
