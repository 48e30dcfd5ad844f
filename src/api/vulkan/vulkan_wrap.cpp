// SPDX-License-Identifier: Apache-2.0
// krafla/vulkan.h.
#include "api/session/client_state.h"
#include "api/vulkan/vulkan_client.h"

namespace krafla {

Result<LocalClient> WrapVulkanDevice(const VulkanDevice& device, const ClientOptions& options) {
  return LocalClient::Impl::Create(options, [&] { return CreateVulkanClient(device, options); });
}

}  // namespace krafla
