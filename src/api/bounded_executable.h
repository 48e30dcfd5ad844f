// SPDX-License-Identifier: Apache-2.0
// The interface of a module with bounded dynamic dimensions over an executable that has none: arguments may be smaller
// than their bounds and results come back in the size that they have.
#pragma once

#include <memory>

#include "api/client.h"

namespace krafla {

// `executable` itself where nothing in its interface is dynamic.
Result<std::unique_ptr<Executable>> WithRunTimeSizes(std::unique_ptr<Executable> executable);

}  // namespace krafla
