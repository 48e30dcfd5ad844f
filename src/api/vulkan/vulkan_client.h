// SPDX-License-Identifier: Apache-2.0
// The row "vulkan" of api/back_ends.h.
#pragma once

#include "api/client.h"
#include "vk_runtime/device.h"

namespace krafla {

Result<std::vector<DeviceDescription>> ListVulkanDevices();
// Nothing is preferred to a Vulkan device: `passed_over` is for those that stand in for others.
Result<std::shared_ptr<Client>> CreateVulkanClient(std::string_view selector, const ClientOptions& options,
                                                   std::string_view passed_over);
// On an application's own device.
Result<std::shared_ptr<Client>> CreateVulkanClient(const VulkanDevice& device, const ClientOptions& options);

// The application's device, as the last program was compiled for it. FAILED_PRECONDITION for any other client.
Result<std::shared_ptr<vk::Device>> AppDevice(Client& client);

// A device as CreateVulkanClient's programs get it, after the self-test.
Result<std::shared_ptr<vk::Device>> OpenTestedDevice(std::string_view selector);

}  // namespace krafla
