// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plugins/pjrt/abi/profiler_api.h"

namespace krafla::pjrt {

// The extension, with nothing after it.
PJRT_Profiler_Extension* ProfilerExtension();

}  // namespace krafla::pjrt
