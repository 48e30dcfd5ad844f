// SPDX-License-Identifier: Apache-2.0
// The row "cpu" of api/back_ends.h.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "api/client.h"

namespace krafla {

// The one that there is.
Result<std::vector<DeviceDescription>> ListCpuDevices();

// `passed_over`: of a client that stands in for a device that the caller would have preferred. It says so, and compiles
// nothing `strict`.
Result<std::shared_ptr<Client>> CreateCpuClient(std::string_view selector, const ClientOptions& options,
                                                std::string_view passed_over);

}  // namespace krafla
