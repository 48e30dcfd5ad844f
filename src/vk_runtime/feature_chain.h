// SPDX-License-Identifier: Apache-2.0
// The feature structs that we ask for, listed once: the snapshot queries them, device creation enables from them.
// Only the structs of single features are used, never VkPhysicalDeviceVulkan1xFeatures, so that a Vulkan 1.1 device
// with extensions and a Vulkan 1.4 device take the same path.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "vk_runtime/vk_api.h"

namespace krafla::vk {

using Extensions = std::set<std::string, std::less<>>;

// X(member, struct, sType, extension, first Vulkan version with it in core; 0: none)
#define KRAFLA_FEATURE_STRUCTS(X)                                                                                      \
  X(storage16, 16BitStorageFeatures, 16BIT_STORAGE_FEATURES, "VK_KHR_16bit_storage", VK_API_VERSION_1_1)               \
  X(variable_pointers, VariablePointersFeatures, VARIABLE_POINTERS_FEATURES, "VK_KHR_variable_pointers",               \
    VK_API_VERSION_1_1)                                                                                                \
  X(storage8, 8BitStorageFeatures, 8BIT_STORAGE_FEATURES, "VK_KHR_8bit_storage", VK_API_VERSION_1_2)                   \
  X(float16_int8, ShaderFloat16Int8Features, SHADER_FLOAT16_INT8_FEATURES, "VK_KHR_shader_float16_int8",               \
    VK_API_VERSION_1_2)                                                                                                \
  X(bda, BufferDeviceAddressFeatures, BUFFER_DEVICE_ADDRESS_FEATURES, "VK_KHR_buffer_device_address",                  \
    VK_API_VERSION_1_2)                                                                                                \
  X(timeline, TimelineSemaphoreFeatures, TIMELINE_SEMAPHORE_FEATURES, "VK_KHR_timeline_semaphore", VK_API_VERSION_1_2) \
  X(memory_model, VulkanMemoryModelFeatures, VULKAN_MEMORY_MODEL_FEATURES, "VK_KHR_vulkan_memory_model",               \
    VK_API_VERSION_1_2)                                                                                                \
  X(scalar_layout, ScalarBlockLayoutFeatures, SCALAR_BLOCK_LAYOUT_FEATURES, "VK_EXT_scalar_block_layout",              \
    VK_API_VERSION_1_2)                                                                                                \
  X(atomic_int64, ShaderAtomicInt64Features, SHADER_ATOMIC_INT64_FEATURES, "VK_KHR_shader_atomic_int64",               \
    VK_API_VERSION_1_2)                                                                                                \
  X(subgroup_types, ShaderSubgroupExtendedTypesFeatures, SHADER_SUBGROUP_EXTENDED_TYPES_FEATURES,                      \
    "VK_KHR_shader_subgroup_extended_types", VK_API_VERSION_1_2)                                                       \
  X(subgroup_size, SubgroupSizeControlFeatures, SUBGROUP_SIZE_CONTROL_FEATURES, "VK_EXT_subgroup_size_control",        \
    VK_API_VERSION_1_3)                                                                                                \
  X(sync2, Synchronization2Features, SYNCHRONIZATION_2_FEATURES, "VK_KHR_synchronization2", VK_API_VERSION_1_3)        \
  X(maintenance4, Maintenance4Features, MAINTENANCE_4_FEATURES, "VK_KHR_maintenance4", VK_API_VERSION_1_3)             \
  X(zero_workgroup, ZeroInitializeWorkgroupMemoryFeatures, ZERO_INITIALIZE_WORKGROUP_MEMORY_FEATURES,                  \
    "VK_KHR_zero_initialize_workgroup_memory", VK_API_VERSION_1_3)                                                     \
  X(dot, ShaderIntegerDotProductFeatures, SHADER_INTEGER_DOT_PRODUCT_FEATURES, "VK_KHR_shader_integer_dot_product",    \
    VK_API_VERSION_1_3)                                                                                                \
  X(robustness, PipelineRobustnessFeaturesEXT, PIPELINE_ROBUSTNESS_FEATURES_EXT, "VK_EXT_pipeline_robustness",         \
    VK_API_VERSION_1_4)                                                                                                \
  X(float_controls2, ShaderFloatControls2FeaturesKHR, SHADER_FLOAT_CONTROLS_2_FEATURES_KHR,                            \
    "VK_KHR_shader_float_controls2", VK_API_VERSION_1_4)                                                               \
  X(rotate, ShaderSubgroupRotateFeaturesKHR, SHADER_SUBGROUP_ROTATE_FEATURES_KHR, "VK_KHR_shader_subgroup_rotate",     \
    VK_API_VERSION_1_4)                                                                                                \
  X(workgroup_layout, WorkgroupMemoryExplicitLayoutFeaturesKHR, WORKGROUP_MEMORY_EXPLICIT_LAYOUT_FEATURES_KHR,         \
    "VK_KHR_workgroup_memory_explicit_layout", 0)                                                                      \
  X(reconvergence, ShaderMaximalReconvergenceFeaturesKHR, SHADER_MAXIMAL_RECONVERGENCE_FEATURES_KHR,                   \
    "VK_KHR_shader_maximal_reconvergence", 0)                                                                          \
  X(uniform_flow, ShaderSubgroupUniformControlFlowFeaturesKHR, SHADER_SUBGROUP_UNIFORM_CONTROL_FLOW_FEATURES_KHR,      \
    "VK_KHR_shader_subgroup_uniform_control_flow", 0)                                                                  \
  X(cooperative, CooperativeMatrixFeaturesKHR, COOPERATIVE_MATRIX_FEATURES_KHR, "VK_KHR_cooperative_matrix", 0)        \
  X(cooperative2, CooperativeMatrix2FeaturesNV, COOPERATIVE_MATRIX_2_FEATURES_NV, "VK_NV_cooperative_matrix2", 0)      \
  X(atomic_float, ShaderAtomicFloatFeaturesEXT, SHADER_ATOMIC_FLOAT_FEATURES_EXT, "VK_EXT_shader_atomic_float", 0)     \
  X(atomic_float2, ShaderAtomicFloat2FeaturesEXT, SHADER_ATOMIC_FLOAT_2_FEATURES_EXT, "VK_EXT_shader_atomic_float2",   \
    0)                                                                                                                 \
  X(fault, FaultFeaturesEXT, FAULT_FEATURES_EXT, "VK_EXT_device_fault", 0)                                             \
  X(executable, PipelineExecutablePropertiesFeaturesKHR, PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,                  \
    "VK_KHR_pipeline_executable_properties", 0)                                                                        \
  X(conditional, ConditionalRenderingFeaturesEXT, CONDITIONAL_RENDERING_FEATURES_EXT, "VK_EXT_conditional_rendering",  \
    0)                                                                                                                 \
  X(bfloat16, ShaderBfloat16FeaturesKHR, SHADER_BFLOAT16_FEATURES_KHR, "VK_KHR_shader_bfloat16", 0)                    \
  X(float8, ShaderFloat8FeaturesEXT, SHADER_FLOAT8_FEATURES_EXT, "VK_EXT_shader_float8", 0)

struct FeatureChain {
  FeatureChain() = default;
  FeatureChain(const FeatureChain&) = delete;  // the structs point at each other
  FeatureChain& operator=(const FeatureChain&) = delete;

  VkPhysicalDeviceFeatures2 core = Struct<VkPhysicalDeviceFeatures2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
#define KRAFLA_MEMBER(member, type, stype, extension, version) \
  VkPhysicalDevice##type member = {};                          \
  bool has_##member = false;
  KRAFLA_FEATURE_STRUCTS(KRAFLA_MEMBER)
#undef KRAFLA_MEMBER

  // Links behind `core` each struct that a device of this version with these extensions knows.
  void Link(const Extensions& available, uint32_t api_version);
  // Links each struct in which something is set, and names the extensions that a device of this version needs for it.
  void LinkUsed(uint32_t api_version, std::vector<const char*>& extensions);
};

inline bool HasFeature(const Extensions& available, uint32_t api_version, const char* extension, uint32_t core) {
  return (core != 0 && api_version >= core) || available.contains(extension);
}

}  // namespace krafla::vk
