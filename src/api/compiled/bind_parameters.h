// SPDX-License-Identifier: Apache-2.0
// Arguments that are the same in every run, made a part of the program.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "ir/module.h"
#include "krafla/literal.h"
#include "krafla/status.h"

namespace krafla {

// Puts constants in the place of parameters of the entry, by their numbers; those that stay move up. INVALID_ARGUMENT
// for a literal that is not the parameter's array, and where a result has to take the place of the argument.
Result<> BindParameters(Module& module, const std::map<int64_t, std::shared_ptr<const Literal>>& arguments);

}  // namespace krafla
