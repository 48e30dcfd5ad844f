// SPDX-License-Identifier: Apache-2.0
// The one door to Vulkan. Instance functions are volk's globals; device functions are called through the
// VolkDeviceTable of a Device only, so that tests can swap any of them.
#pragma once

#include <volk.h>

// Extensions newer than Vulkan-Headers 1.4.309. Values from the Vulkan registry (vk.xml).
#ifndef VK_KHR_shader_bfloat16
#define VK_KHR_shader_bfloat16 1
#define VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME "VK_KHR_shader_bfloat16"
#define VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR static_cast<VkStructureType>(1000141000)
#define VK_COMPONENT_TYPE_BFLOAT16_KHR static_cast<VkComponentTypeKHR>(1000141000)
struct VkPhysicalDeviceShaderBfloat16FeaturesKHR {
  VkStructureType sType;
  void* pNext;
  VkBool32 shaderBFloat16Type;
  VkBool32 shaderBFloat16DotProduct;
  VkBool32 shaderBFloat16CooperativeMatrix;
};
#endif

#ifndef VK_EXT_shader_float8
#define VK_EXT_shader_float8 1
#define VK_EXT_SHADER_FLOAT8_EXTENSION_NAME "VK_EXT_shader_float8"
#define VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT8_FEATURES_EXT static_cast<VkStructureType>(1000567000)
#define VK_COMPONENT_TYPE_FLOAT8_E4M3_EXT static_cast<VkComponentTypeKHR>(1000491002)
#define VK_COMPONENT_TYPE_FLOAT8_E5M2_EXT static_cast<VkComponentTypeKHR>(1000491003)
struct VkPhysicalDeviceShaderFloat8FeaturesEXT {
  VkStructureType sType;
  void* pNext;
  VkBool32 shaderFloat8;
  VkBool32 shaderFloat8CooperativeMatrix;
};
#endif

namespace krafla::vk {

// A zeroed Vulkan struct with its type set.
template <typename T>
T Struct(VkStructureType type) {
  T out{};
  out.sType = type;
  return out;
}

}  // namespace krafla::vk
