// SPDX-License-Identifier: Apache-2.0
// VulkanMemoryAllocator, given every function by us: it must not reach past the dispatch table.
#pragma once

#include "vk_runtime/vk_api.h"

#define VMA_STATIC_VULKAN_FUNCTIONS 0
#define VMA_DYNAMIC_VULKAN_FUNCTIONS 0
#define VMA_VULKAN_VERSION 1001000
#include <vk_mem_alloc.h>
