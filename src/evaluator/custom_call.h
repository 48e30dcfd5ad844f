// SPDX-License-Identifier: Apache-2.0
// The custom calls that the evaluator knows without a hook.
#pragma once

#include <span>
#include <string_view>

#include "ir/module.h"
#include "krafla/status.h"

namespace krafla {

// Names that end in '*' stand for all that begin so.
std::span<const std::string_view> BuiltInCustomCalls();
bool IsBuiltInCustomCall(std::string_view target);
// INVALID_ARGUMENT for a call of one of these whose operands it does not take, or whose result is not what it gives.
// Nothing to say of other calls.
Result<> CheckBuiltInCustomCall(const Instruction& call);
// How many of the first dimensions only count problems that have nothing to do with each other, the same in all
// operands and results: those before the matrices of a decomposition. 0 of calls that are not built in.
int64_t BatchRankOfCustomCall(const Instruction& call);

}  // namespace krafla
