// SPDX-License-Identifier: Apache-2.0
// The interface of a module with bounded dynamic dimensions over an executable that has none: arguments may be smaller
// than their bounds and results come back in the size that they have.
#pragma once

#include <memory>

#include "api/client.h"
#include "passes/entry_interface.h"

namespace krafla {

// `executable` itself where nothing in `declared` is dynamic.
Result<std::unique_ptr<Executable>> WithRunTimeSizes(EntryInterface declared, std::unique_ptr<Executable> executable);

}  // namespace krafla
