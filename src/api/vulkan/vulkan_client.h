// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "api/client.h"

namespace krafla {

Result<std::vector<DeviceDescription>> ListVulkanDevices();
Result<std::shared_ptr<Client>> CreateVulkanClient(std::string_view selector, const ClientOptions& options);

}  // namespace krafla
