// SPDX-License-Identifier: Apache-2.0
// VkResult -> Status, in one place.
#pragma once

#include <string_view>

#include "krafla/status.h"
#include "vk_runtime/vk_api.h"

namespace krafla::vk {

std::string_view ResultName(VkResult result);  // "VK_ERROR_DEVICE_LOST"
StatusCode ResultCode(VkResult result);        // of a result that is not VK_SUCCESS

// `what` completes the sentence "The Vulkan driver failed to ...". Device loss goes through Device::Fail, which adds
// the kernels that were running.
Failure VulkanError(VkResult result, std::string_view what);

}  // namespace krafla::vk
