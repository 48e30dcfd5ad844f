// SPDX-License-Identifier: Apache-2.0
// What the environment asks to be validated. It stands below the Vulkan rooms because a build without them has to
// refuse what it cannot validate.
#pragma once

#include "krafla/status.h"

namespace krafla {

// What VK_LAYER_KHRONOS_validation looks at.
enum class Validation {
  kNone,
  kCalls,    // core and synchronization checks
  kShaders,  // GPU-assisted checks: what each shader does with addresses and descriptors; shaders take many times as
             // long
};

// KRAFLA_VALIDATE. A word that means nothing is INVALID_ARGUMENT, as what was to be validated would not be.
Result<Validation> ValidationAskedFor();

}  // namespace krafla
