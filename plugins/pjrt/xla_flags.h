// SPDX-License-Identifier: Apache-2.0
// XLA's flags by name and type: callers may set them for one program (compiler_options in JAX). None does anything
// here, but a value of the wrong type is a mistake that XLA tells, and so do we.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "krafla/status.h"

namespace krafla::pjrt {

// OptionOverrideProto of xla/pjrt/proto/compile_options.proto.
using FlagValue = std::variant<std::string, bool, int64_t, double>;

// INVALID_ARGUMENT for a name that is none of a flag, and for a value that the flag of that name cannot have. Flags
// that are newer than the list may have any value.
Result<> CheckXlaFlag(std::string_view name, const FlagValue& value);

}  // namespace krafla::pjrt
