// SPDX-License-Identifier: Apache-2.0
// Which device a person means: "vulkan", "vulkan:1", "vulkan:uuid=..", "vulkan:pci=..", "vulkan:type=cpu",
// "vulkan:\"name part\"". A count ("*4") is the caller's and is not accepted here.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "device/device_profile.h"
#include "krafla/status.h"

namespace krafla::vk {

// The position in `devices`, which are best first; of several that fit, the best. INVALID_ARGUMENT for a selector that
// is not one, NOT_FOUND with the list of devices for one that fits none.
Result<std::size_t> SelectDevice(std::string_view selector, std::span<const DeviceProfile* const> devices);

}  // namespace krafla::vk
