// SPDX-License-Identifier: Apache-2.0
// Messages to the sink of krafla/hooks.h.
#pragma once

#include <string_view>

#include "krafla/hooks.h"

namespace krafla {

// Whether anybody listens: messages that take work to write are written then only.
bool IsLogged();
void Log(LogLevel level, std::string_view message);

}  // namespace krafla
