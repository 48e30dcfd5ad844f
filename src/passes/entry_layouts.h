// SPDX-License-Identifier: Apache-2.0
// For callers who keep arrays in the layouts that a module's header promises (entry_computation_layout), where
// everything else here has arrays row-major.
#pragma once

#include "ir/module.h"
#include "krafla/status.h"
#include "passes/entry_interface.h"

namespace krafla {

// Makes each parameter and result what lies in memory: the row-major array of the dimensions from major to minor.
// Transposes lead from it and to it, which passes that follow may cancel. The header promises nothing any more: gives
// the interface that it had, each layout an order of dimensions alone. An entry with tuples for parameters, or with
// dynamic dimensions, has all its arrays row-major, whatever its header says. For verified modules.
Result<EntryInterface> LayOutEntry(Module& module);

}  // namespace krafla
