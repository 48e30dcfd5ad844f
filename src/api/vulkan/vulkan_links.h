// SPDX-License-Identifier: Apache-2.0
// Collectives on Vulkan devices: as programs over the members' own arrays where they are on one logical device, else
// through a window, pages of the host that every device has imported and works in by itself.
#pragma once

#include <memory>
#include <span>

#include "api/group/device_links.h"

namespace krafla {

// `members`: what each device of a group runs, and the clients that compiled it. Null where they have no path but the
// host.
Result<std::unique_ptr<DeviceLinks>> LinkVulkanDevices(std::span<Executable* const> members,
                                                       std::span<const std::shared_ptr<Client>> clients,
                                                       const CompileOptions& options);
// Each path between a logical device of `from` and another one of `to`.
Result<std::vector<LinkProbe>> ProbeVulkanLinks(std::string_view from, std::string_view to);

}  // namespace krafla
