// SPDX-License-Identifier: Apache-2.0
// A Module as StableHLO, in the forms that ReadModule and StableHLO's own readers take.
#pragma once

#include <string>

#include "ir/module.h"
#include "krafla/status.h"

namespace krafla {

// UNIMPLEMENTED, naming the instruction, for what StableHLO has no form of. The module has to be verified.
Result<std::string> WriteStablehloText(const Module& module);
// A portable artifact: MLIR bytecode of VHLO, of the lowest version that has all that the program uses, 1.0.0 or later.
Result<std::string> WriteStablehloBytecode(const Module& module);

}  // namespace krafla
