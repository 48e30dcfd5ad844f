// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/app_device.h"

namespace krafla::vk {
namespace {

// The structs that stand for many: what FeatureChain has of them.
void ReadVersionStruct(const VkBaseInStructure& in, FeatureChain& out) {
  switch (static_cast<int>(in.sType)) {  // of hundreds
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES: {
      const auto& f = reinterpret_cast<const VkPhysicalDeviceVulkan11Features&>(in);
      out.storage16.storageBuffer16BitAccess |= f.storageBuffer16BitAccess;
      out.variable_pointers.variablePointersStorageBuffer |= f.variablePointersStorageBuffer;
      out.variable_pointers.variablePointers |= f.variablePointers;
      break;
    }
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES: {
      const auto& f = reinterpret_cast<const VkPhysicalDeviceVulkan12Features&>(in);
      out.storage8.storageBuffer8BitAccess |= f.storageBuffer8BitAccess;
      out.float16_int8.shaderFloat16 |= f.shaderFloat16;
      out.float16_int8.shaderInt8 |= f.shaderInt8;
      out.bda.bufferDeviceAddress |= f.bufferDeviceAddress;
      out.timeline.timelineSemaphore |= f.timelineSemaphore;
      out.memory_model.vulkanMemoryModel |= f.vulkanMemoryModel;
      out.memory_model.vulkanMemoryModelDeviceScope |= f.vulkanMemoryModelDeviceScope;
      out.scalar_layout.scalarBlockLayout |= f.scalarBlockLayout;
      out.atomic_int64.shaderBufferInt64Atomics |= f.shaderBufferInt64Atomics;
      out.subgroup_types.shaderSubgroupExtendedTypes |= f.shaderSubgroupExtendedTypes;
      break;
    }
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES: {
      const auto& f = reinterpret_cast<const VkPhysicalDeviceVulkan13Features&>(in);
      out.subgroup_size.subgroupSizeControl |= f.subgroupSizeControl;
      out.subgroup_size.computeFullSubgroups |= f.computeFullSubgroups;
      out.sync2.synchronization2 |= f.synchronization2;
      out.maintenance4.maintenance4 |= f.maintenance4;
      out.zero_workgroup.shaderZeroInitializeWorkgroupMemory |= f.shaderZeroInitializeWorkgroupMemory;
      out.dot.shaderIntegerDotProduct |= f.shaderIntegerDotProduct;
      break;
    }
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_4_FEATURES: {
      const auto& f = reinterpret_cast<const VkPhysicalDeviceVulkan14Features&>(in);
      out.robustness.pipelineRobustness |= f.pipelineRobustness;
      out.float_controls2.shaderFloatControls2 |= f.shaderFloatControls2;
      out.rotate.shaderSubgroupRotate |= f.shaderSubgroupRotate;
      break;
    }
    default: break;
  }
}

}  // namespace

void ReadEnabledFeatures(const VkPhysicalDeviceFeatures2* enabled, const Extensions& extensions, uint32_t api_version,
                         FeatureChain& out) {
  out.Link(extensions, api_version);
  if (enabled == nullptr) return;
  out.core.features = enabled->features;
  for (auto* in = static_cast<const VkBaseInStructure*>(enabled->pNext); in != nullptr; in = in->pNext) {
    ReadVersionStruct(*in, out);
#define KRAFLA_READ(member, type, stype, extension, version)                        \
  if (out.has_##member && in->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_##stype) { \
    void* const next = out.member.pNext;                                            \
    out.member = reinterpret_cast<const VkPhysicalDevice##type&>(*in);              \
    out.member.pNext = next;                                                        \
  }
    KRAFLA_FEATURE_STRUCTS(KRAFLA_READ)
#undef KRAFLA_READ
  }
}

}  // namespace krafla::vk
