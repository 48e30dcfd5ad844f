// SPDX-License-Identifier: Apache-2.0
// krafla/vulkan.h behind the one door to Vulkan: volk has to come before it.
#pragma once

// clang-format off
#include "vk_runtime/vk_api.h"
#include "krafla/vulkan.h"
// clang-format on
#include "vk_runtime/feature_chain.h"

namespace krafla::vk {

// The features of a chain as vkCreateDevice takes it, but for those whose extension or version is not enabled. `out` is
// linked as FeatureChain::Link does.
void ReadEnabledFeatures(const VkPhysicalDeviceFeatures2* enabled, const Extensions& extensions, uint32_t api_version,
                         FeatureChain& out);

}  // namespace krafla::vk
