// SPDX-License-Identifier: Apache-2.0
// The names of CompileOptions::disabled and enabled.
#pragma once

#include "api/client.h"

namespace krafla {

// INVALID_ARGUMENT, with those that there are, for a name that is neither a device feature, nor "fusion" or "loops",
// nor a pass, and for one to enable that is not "coopmat": everything else is on wherever the device has it.
Result<> CheckDisabledName(std::string_view name);
Result<> CheckEnabledName(std::string_view name);

// All of both.
Result<> CheckFeatureNames(const CompileOptions& options);

}  // namespace krafla
