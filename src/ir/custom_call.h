// SPDX-License-Identifier: Apache-2.0
// The custom calls that krafla knows by name (custom_call_targets.def): their targets, and which shapes they turn into
// which. Whether a program may override one of them by a function of its own is the caller's to say.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ir/module.h"
#include "krafla/status.h"

namespace krafla {

enum class CustomCallTarget : uint8_t {
  kUnknown,  // of no row of the table
#define KRAFLA_CUSTOM_CALL(Enum, name) Enum,
#include "ir/custom_call_targets.def"
};

CustomCallTarget CustomCallTargetOf(std::string_view name);
// kUnknown of an instruction that is no custom call.
CustomCallTarget CustomCallTargetOf(const Instruction& i);
std::string_view CustomCallTargetName(CustomCallTarget target);

// The targets that are evaluated without a function of the program's. A name that ends in '*' stands for all that begin
// so.
std::span<const std::string_view> BuiltInCustomCalls();
bool IsBuiltInCustomCall(CustomCallTarget target);
// Whether a call of a built-in target has the operands that it takes and the result that it gives; true of other calls.
bool CustomCallShapesFit(const Instruction& call);
// INVALID_ARGUMENT where they do not fit.
Result<> CheckBuiltInCustomCall(const Instruction& call);
// How many of the first dimensions only count problems that have nothing to do with each other, the same in all
// operands and results: those before the matrices of a decomposition. 0 of calls that are not built in.
int64_t BatchRankOfCustomCall(const Instruction& call);

}  // namespace krafla
