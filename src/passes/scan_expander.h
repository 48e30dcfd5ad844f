// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "passes/pipeline.h"

namespace krafla {

Result<bool> ScanExpander(Module& module, const PassOptions& options);

}  // namespace krafla
