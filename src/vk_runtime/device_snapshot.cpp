// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/device_snapshot.h"

#include <algorithm>
#include <cstring>

#include "vk_runtime/app_device.h"
#include "vk_runtime/vk_status.h"

namespace krafla::vk {
namespace {

std::string Hex(const uint8_t (&bytes)[VK_UUID_SIZE]) {
  std::string out;
  for (uint8_t b : bytes) out += Format("{:02x}", b);
  return out;
}

DeviceType TypeOf(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return DeviceType::kIntegrated;
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return DeviceType::kDiscrete;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return DeviceType::kVirtual;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return DeviceType::kCpu;
    case VK_PHYSICAL_DEVICE_TYPE_OTHER:
    case VK_PHYSICAL_DEVICE_TYPE_MAX_ENUM: break;
  }
  return DeviceType::kOther;
}

// An int, not the enum: newer types are not enumerators of the headers that we are built with.
ComponentType ComponentOf(int type) {
  switch (type) {
    case VK_COMPONENT_TYPE_FLOAT16_KHR: return ComponentType::kF16;
    case VK_COMPONENT_TYPE_FLOAT32_KHR: return ComponentType::kF32;
    case VK_COMPONENT_TYPE_FLOAT64_KHR: return ComponentType::kF64;
    case VK_COMPONENT_TYPE_SINT8_KHR: return ComponentType::kS8;
    case VK_COMPONENT_TYPE_SINT16_KHR: return ComponentType::kS16;
    case VK_COMPONENT_TYPE_SINT32_KHR: return ComponentType::kS32;
    case VK_COMPONENT_TYPE_SINT64_KHR: return ComponentType::kS64;
    case VK_COMPONENT_TYPE_UINT8_KHR: return ComponentType::kU8;
    case VK_COMPONENT_TYPE_UINT16_KHR: return ComponentType::kU16;
    case VK_COMPONENT_TYPE_UINT32_KHR: return ComponentType::kU32;
    case VK_COMPONENT_TYPE_UINT64_KHR: return ComponentType::kU64;
    case VK_COMPONENT_TYPE_BFLOAT16_KHR: return ComponentType::kBF16;
    case VK_COMPONENT_TYPE_FLOAT8_E4M3_EXT: return ComponentType::kF8E4M3;
    case VK_COMPONENT_TYPE_FLOAT8_E5M2_EXT: return ComponentType::kF8E5M2;
    default: return ComponentType::kOther;
  }
}

MatrixScope ScopeOf(int scope) {
  switch (scope) {
    case VK_SCOPE_DEVICE_KHR: return MatrixScope::kDevice;
    case VK_SCOPE_WORKGROUP_KHR: return MatrixScope::kWorkgroup;
    case VK_SCOPE_SUBGROUP_KHR: return MatrixScope::kSubgroup;
    case VK_SCOPE_QUEUE_FAMILY_KHR: return MatrixScope::kQueueFamily;
    default: return MatrixScope::kOther;
  }
}

FloatIndependence IndependenceOf(VkShaderFloatControlsIndependence value) {
  if (value == VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_ALL) return FloatIndependence::kAll;
  if (value == VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_32_BIT_ONLY) return FloatIndependence::k32Only;
  return FloatIndependence::kNone;
}

// The property structs, with the same rule as FeatureChain: linked only where the device knows them.
struct PropertyChain {
  VkPhysicalDeviceProperties2 core =
      Struct<VkPhysicalDeviceProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);
  VkPhysicalDeviceIDProperties id =
      Struct<VkPhysicalDeviceIDProperties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES);
  VkPhysicalDeviceSubgroupProperties subgroup =
      Struct<VkPhysicalDeviceSubgroupProperties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES);
  VkPhysicalDeviceMaintenance3Properties maintenance3 =
      Struct<VkPhysicalDeviceMaintenance3Properties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES);
  VkPhysicalDeviceMaintenance4Properties maintenance4 =
      Struct<VkPhysicalDeviceMaintenance4Properties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES);
  VkPhysicalDeviceDriverProperties driver =
      Struct<VkPhysicalDeviceDriverProperties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES);
  VkPhysicalDeviceFloatControlsProperties floats =
      Struct<VkPhysicalDeviceFloatControlsProperties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES);
  VkPhysicalDeviceSubgroupSizeControlProperties size_control = Struct<VkPhysicalDeviceSubgroupSizeControlProperties>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES);
  VkPhysicalDeviceShaderIntegerDotProductProperties dot = Struct<VkPhysicalDeviceShaderIntegerDotProductProperties>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES);
  VkPhysicalDeviceCooperativeMatrixPropertiesKHR cooperative = Struct<VkPhysicalDeviceCooperativeMatrixPropertiesKHR>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_PROPERTIES_KHR);
  VkPhysicalDeviceCooperativeMatrix2PropertiesNV cooperative2 = Struct<VkPhysicalDeviceCooperativeMatrix2PropertiesNV>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_PROPERTIES_NV);
  VkPhysicalDeviceExternalMemoryHostPropertiesEXT host = Struct<VkPhysicalDeviceExternalMemoryHostPropertiesEXT>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT);
  VkPhysicalDevicePCIBusInfoPropertiesEXT pci =
      Struct<VkPhysicalDevicePCIBusInfoPropertiesEXT>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT);
  bool has_driver = false, has_floats = false, has_size_control = false, has_pci = false;

  void Link(const Extensions& available, uint32_t api_version) {
    void** next = &core.pNext;
    auto link = [&](auto& properties, const char* extension, uint32_t version) {
      bool has = HasFeature(available, api_version, extension, version);
      if (has) {
        *next = &properties;
        next = &properties.pNext;
      }
      return has;
    };
    link(id, "", VK_API_VERSION_1_1);
    link(subgroup, "", VK_API_VERSION_1_1);
    link(maintenance3, "", VK_API_VERSION_1_1);
    link(maintenance4, "VK_KHR_maintenance4", VK_API_VERSION_1_3);
    has_driver = link(driver, "VK_KHR_driver_properties", VK_API_VERSION_1_2);
    has_floats = link(floats, "VK_KHR_shader_float_controls", VK_API_VERSION_1_2);
    has_size_control = link(size_control, "VK_EXT_subgroup_size_control", VK_API_VERSION_1_3);
    link(dot, "VK_KHR_shader_integer_dot_product", VK_API_VERSION_1_3);
    link(cooperative, "VK_KHR_cooperative_matrix", 0);
    link(cooperative2, "VK_NV_cooperative_matrix2", 0);
    link(host, "VK_EXT_external_memory_host", 0);
    has_pci = link(pci, "VK_EXT_pci_bus_info", 0);
  }
};

void ReadLimits(const PropertyChain& p, DeviceProfile& out) {
  const VkPhysicalDeviceLimits& in = p.core.properties.limits;
  DeviceLimits& l = out.limits;
  l.max_workgroup_invocations = in.maxComputeWorkGroupInvocations;
  std::ranges::copy(in.maxComputeWorkGroupSize, l.max_workgroup_size);
  std::ranges::copy(in.maxComputeWorkGroupCount, l.max_workgroup_count);
  l.max_shared_memory_bytes = in.maxComputeSharedMemorySize;
  l.max_storage_buffer_range = in.maxStorageBufferRange;
  l.max_allocation_size = p.maintenance3.maxMemoryAllocationSize;
  l.max_buffer_size = p.maintenance4.maxBufferSize != 0 ? p.maintenance4.maxBufferSize : l.max_allocation_size;
  l.max_push_constant_bytes = in.maxPushConstantsSize;
  l.max_per_stage_storage_buffers = in.maxPerStageDescriptorStorageBuffers;
  l.min_storage_buffer_offset_alignment = static_cast<uint32_t>(in.minStorageBufferOffsetAlignment);
  l.non_coherent_atom_bytes = static_cast<uint32_t>(in.nonCoherentAtomSize);
  l.timestamp_period_ns = in.timestampPeriod;
  l.max_flexible_matrix_side = p.cooperative2.cooperativeMatrixFlexibleDimensionsMaxDimension;
  l.max_matrix_workgroup_invocations = p.cooperative2.cooperativeMatrixWorkgroupScopeMaxWorkgroupSize;
  l.matrix_workgroup_reserved_bytes = p.cooperative2.cooperativeMatrixWorkgroupScopeReservedSharedMemory;
  l.subgroup_size = l.min_subgroup_size = l.max_subgroup_size = std::max(1u, p.subgroup.subgroupSize);
  if (p.has_size_control && p.size_control.minSubgroupSize > 0) {
    l.min_subgroup_size = p.size_control.minSubgroupSize;
    l.max_subgroup_size = p.size_control.maxSubgroupSize;
    l.max_workgroup_subgroups = p.size_control.maxComputeWorkgroupSubgroups;
  }
}

void ReadSubgroupOps(const PropertyChain& p, const FeatureChain& f, SubgroupOps& ops) {
  if ((p.subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) == 0) return;
  auto has = [&](VkSubgroupFeatureFlagBits bit) { return (p.subgroup.supportedOperations & bit) != 0; };
  ops.basic = has(VK_SUBGROUP_FEATURE_BASIC_BIT);
  ops.vote = has(VK_SUBGROUP_FEATURE_VOTE_BIT);
  ops.arithmetic = has(VK_SUBGROUP_FEATURE_ARITHMETIC_BIT);
  ops.ballot = has(VK_SUBGROUP_FEATURE_BALLOT_BIT);
  ops.shuffle = has(VK_SUBGROUP_FEATURE_SHUFFLE_BIT);
  ops.shuffle_relative = has(VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT);
  ops.clustered = has(VK_SUBGROUP_FEATURE_CLUSTERED_BIT);
  ops.quad = has(VK_SUBGROUP_FEATURE_QUAD_BIT);
  ops.rotate = f.rotate.shaderSubgroupRotate != VK_FALSE;
}

void ReadFloatControls(const PropertyChain& p, DeviceProfile& out) {
  if (!p.has_floats) return;
  const auto& in = p.floats;
  out.features.shader_float_controls = true;
  out.float16_controls = {in.shaderSignedZeroInfNanPreserveFloat16 != 0, in.shaderRoundingModeRTEFloat16 != 0,
                          in.shaderRoundingModeRTZFloat16 != 0, in.shaderDenormPreserveFloat16 != 0,
                          in.shaderDenormFlushToZeroFloat16 != 0};
  out.float32_controls = {in.shaderSignedZeroInfNanPreserveFloat32 != 0, in.shaderRoundingModeRTEFloat32 != 0,
                          in.shaderRoundingModeRTZFloat32 != 0, in.shaderDenormPreserveFloat32 != 0,
                          in.shaderDenormFlushToZeroFloat32 != 0};
  out.float64_controls = {in.shaderSignedZeroInfNanPreserveFloat64 != 0, in.shaderRoundingModeRTEFloat64 != 0,
                          in.shaderRoundingModeRTZFloat64 != 0, in.shaderDenormPreserveFloat64 != 0,
                          in.shaderDenormFlushToZeroFloat64 != 0};
  out.denorm_independence = IndependenceOf(in.denormBehaviorIndependence);
  out.rounding_independence = IndependenceOf(in.roundingModeIndependence);
}

void ReadFeatures(const PropertyChain& p, const FeatureChain& f, const Extensions& extensions, DeviceFeatures& out) {
  out.int8 = f.float16_int8.shaderInt8 != 0;
  out.int16 = f.core.features.shaderInt16 != 0;
  out.int64 = f.core.features.shaderInt64 != 0;
  out.float16 = f.float16_int8.shaderFloat16 != 0;
  out.float64 = f.core.features.shaderFloat64 != 0;
  out.storage8 = f.storage8.storageBuffer8BitAccess != 0;
  out.storage16 = f.storage16.storageBuffer16BitAccess != 0;
  out.bfloat16 = f.bfloat16.shaderBFloat16Type != 0;
  out.bfloat16_dot = f.bfloat16.shaderBFloat16DotProduct != 0;
  out.bfloat16_cooperative_matrix = f.bfloat16.shaderBFloat16CooperativeMatrix != 0;
  out.float8 = f.float8.shaderFloat8 != 0;
  out.float8_cooperative_matrix = f.float8.shaderFloat8CooperativeMatrix != 0;
  out.buffer_device_address = f.bda.bufferDeviceAddress != 0;
  out.timeline_semaphore = f.timeline.timelineSemaphore != 0;
  out.synchronization2 = f.sync2.synchronization2 != 0;
  out.vulkan_memory_model = f.memory_model.vulkanMemoryModel != 0;
  out.vulkan_memory_model_device_scope = f.memory_model.vulkanMemoryModelDeviceScope != 0;
  out.scalar_block_layout = f.scalar_layout.scalarBlockLayout != 0;
  out.variable_pointers_storage_buffer = f.variable_pointers.variablePointersStorageBuffer != 0;
  out.variable_pointers = f.variable_pointers.variablePointers != 0;
  out.workgroup_memory_explicit_layout = f.workgroup_layout.workgroupMemoryExplicitLayout != 0;
  out.zero_initialize_workgroup_memory = f.zero_workgroup.shaderZeroInitializeWorkgroupMemory != 0;
  out.maintenance4 = f.maintenance4.maintenance4 != 0;
  out.subgroup_size_control = f.subgroup_size.subgroupSizeControl != 0 &&
                              (p.size_control.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
  out.compute_full_subgroups = f.subgroup_size.computeFullSubgroups != 0;
  out.subgroup_extended_types = f.subgroup_types.shaderSubgroupExtendedTypes != 0;
  out.subgroup_uniform_control_flow = f.uniform_flow.shaderSubgroupUniformControlFlow != 0;
  out.maximal_reconvergence = f.reconvergence.shaderMaximalReconvergence != 0;
  out.float_controls2 = f.float_controls2.shaderFloatControls2 != 0;
  out.cooperative_matrix = f.cooperative.cooperativeMatrix != 0 &&
                           (p.cooperative.cooperativeMatrixSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
  if (out.cooperative_matrix) {
    out.matrix_workgroup_scope = f.cooperative2.cooperativeMatrixWorkgroupScope != 0;
    out.matrix_flexible_dimensions = f.cooperative2.cooperativeMatrixFlexibleDimensions != 0;
    out.matrix_per_element_operations = f.cooperative2.cooperativeMatrixPerElementOperations != 0;
    out.matrix_tensor_addressing = f.cooperative2.cooperativeMatrixTensorAddressing != 0;
  }
  out.integer_dot_product = f.dot.shaderIntegerDotProduct != 0;
  out.dot4x8_packed_signed_accelerated = p.dot.integerDotProduct4x8BitPackedSignedAccelerated != 0;
  out.dot4x8_packed_unsigned_accelerated = p.dot.integerDotProduct4x8BitPackedUnsignedAccelerated != 0;
  out.dot4x8_packed_mixed_accelerated = p.dot.integerDotProduct4x8BitPackedMixedSignednessAccelerated != 0;
  out.atomic_int64 = f.atomic_int64.shaderBufferInt64Atomics != 0;
  out.atomic_float32_add_buffer = f.atomic_float.shaderBufferFloat32AtomicAdd != 0;
  out.atomic_float32_add_shared = f.atomic_float.shaderSharedFloat32AtomicAdd != 0;
  out.atomic_float64_add_buffer = f.atomic_float.shaderBufferFloat64AtomicAdd != 0;
  out.atomic_float16_add_buffer = f.atomic_float2.shaderBufferFloat16AtomicAdd != 0;
  out.memory_budget = extensions.contains("VK_EXT_memory_budget");
  out.pipeline_robustness = f.robustness.pipelineRobustness != 0;
  out.device_fault = f.fault.deviceFault != 0;
  out.pipeline_executable_properties = f.executable.pipelineExecutableInfo != 0;
  out.conditional_rendering = f.conditional.conditionalRendering != 0;
}

void ReadMemory(const InstanceFunctions& vk, VkPhysicalDevice handle, DeviceProfile& out) {
  VkPhysicalDeviceMemoryProperties memory;
  vk.vkGetPhysicalDeviceMemoryProperties(handle, &memory);
  uint32_t largest = 0;
  uint64_t largest_bytes = 0;
  for (uint32_t i = 0; i < memory.memoryHeapCount; ++i) {
    bool local = (memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0;
    out.heaps.push_back({memory.memoryHeaps[i].size, local});
    if (local && memory.memoryHeaps[i].size > largest_bytes) {
      largest = i;
      largest_bytes = memory.memoryHeaps[i].size;
    }
  }
  // A discrete card whose whole memory is mapped (ReBAR) is not unified: reading it from the host is slow.
  if (out.type == DeviceType::kDiscrete) return;
  constexpr VkMemoryPropertyFlags kNeeded =
      VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  for (uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
    const VkMemoryType& type = memory.memoryTypes[i];
    if (type.heapIndex == largest && (type.propertyFlags & kNeeded) == kNeeded) out.unified_memory = true;
  }
}

// The rows of a table of `Row`s, such as cooperative-matrix shapes, that `list` fills.
template <typename Row, typename List>
Result<std::vector<Row>> RowsOf(VkStructureType type, std::string_view what, List list) {
  uint32_t count = 0;
  VkResult r = list(&count, nullptr);
  std::vector<Row> rows(count, Struct<Row>(type));
  if (r == VK_SUCCESS) r = list(&count, rows.data());
  if (r != VK_SUCCESS && r != VK_INCOMPLETE) return VulkanError(r, Format("list {}", what));
  rows.resize(std::min<std::size_t>(count, rows.size()));
  return rows;
}

template <typename Shape>
bool HasKnownTypes(const Shape& s) {
  bool known = s.scope != MatrixScope::kOther;
  for (ComponentType t : {s.a, s.b, s.c, s.result}) known = known && t != ComponentType::kOther;
  return known;
}

Result<> ReadMatrices(const InstanceFunctions& vk, VkPhysicalDevice handle, DeviceProfile& out) {
  if (!out.features.cooperative_matrix) return {};
  KRAFLA_ASSIGN(auto rows, RowsOf<VkCooperativeMatrixPropertiesKHR>(
                               VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR, "cooperative-matrix shapes",
                               [&](uint32_t* count, VkCooperativeMatrixPropertiesKHR* to) {
                                 return vk.vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR(handle, count, to);
                               }));
  for (const auto& row : rows) {
    CooperativeMatrixShape shape = {row.MSize,
                                    row.NSize,
                                    row.KSize,
                                    ComponentOf(row.AType),
                                    ComponentOf(row.BType),
                                    ComponentOf(row.CType),
                                    ComponentOf(row.ResultType),
                                    ScopeOf(row.scope),
                                    row.saturatingAccumulation != 0};
    if (HasKnownTypes(shape)) out.cooperative_matrices.push_back(shape);
  }
  const auto list = vk.vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV;
  if (!out.features.matrix_flexible_dimensions || list == nullptr) return {};
  KRAFLA_ASSIGN(auto flexible, RowsOf<VkCooperativeMatrixFlexibleDimensionsPropertiesNV>(
                                   VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_FLEXIBLE_DIMENSIONS_PROPERTIES_NV,
                                   "matrices of flexible dimensions",
                                   [&](uint32_t* count, VkCooperativeMatrixFlexibleDimensionsPropertiesNV* to) {
                                     return list(handle, count, to);
                                   }));
  for (const auto& row : flexible) {
    FlexibleMatrix shape = {row.MGranularity,
                            row.NGranularity,
                            row.KGranularity,
                            ComponentOf(row.AType),
                            ComponentOf(row.BType),
                            ComponentOf(row.CType),
                            ComponentOf(row.ResultType),
                            ScopeOf(row.scope),
                            row.saturatingAccumulation != 0,
                            row.workgroupInvocations};
    if (HasKnownTypes(shape)) out.flexible_matrices.push_back(shape);
  }
  return {};
}

// Whether buffers take imported host pages: the extension alone does not say it (SwiftShader has it and says no).
bool ImportsHostPages(const InstanceFunctions& vk, VkPhysicalDevice handle, const Extensions& extensions) {
  if (!extensions.contains("VK_EXT_external_memory_host")) return false;
  auto info = Struct<VkPhysicalDeviceExternalBufferInfo>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO);
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  info.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
  auto out = Struct<VkExternalBufferProperties>(VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES);
  vk.vkGetPhysicalDeviceExternalBufferProperties(handle, &info, &out);
  const VkExternalMemoryProperties& p = out.externalMemoryProperties;
  return (p.externalMemoryFeatures & VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT) != 0 &&
         (p.externalMemoryFeatures & VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT) == 0 &&
         (p.compatibleHandleTypes & info.handleType) != 0;
}

// Any family with compute; one with graphics too is the main queue, where clocks and scheduling are best. An
// application's device has the one queue that it gives.
struct ComputeQueues {
  uint32_t family = 0, timestamp_bits = 0;
  std::optional<QueuePlace> side;
};
std::optional<ComputeQueues> FindQueues(const InstanceFunctions& vk, VkPhysicalDevice handle, const VulkanDevice* app) {
  uint32_t count = 0;
  vk.vkGetPhysicalDeviceQueueFamilyProperties(handle, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vk.vkGetPhysicalDeviceQueueFamilyProperties(handle, &count, families.data());
  std::optional<uint32_t> best;
  for (uint32_t i = 0; i < count; ++i) {
    if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0 || families[i].queueCount == 0) continue;
    if (app != nullptr && app->queue_family != i) continue;
    if (!best || ((families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT) != 0 &&
                  (families[*best].queueFlags & VK_QUEUE_GRAPHICS_BIT) == 0)) {
      best = i;
    }
  }
  if (!best) return std::nullopt;
  ComputeQueues out = {*best, families[*best].timestampValidBits, {}};
  if (app != nullptr) return out;
  if (families[*best].queueCount > 1) out.side = QueuePlace{*best, 1};
  for (uint32_t i = 0; i < count; ++i) {
    const VkQueueFlags flags = families[i].queueFlags;
    if (i != *best && families[i].queueCount > 0 && (flags & VK_QUEUE_COMPUTE_BIT) != 0 &&
        (flags & VK_QUEUE_GRAPHICS_BIT) == 0) {
      out.side = QueuePlace{i, 0};
      break;
    }
  }
  return out;
}

}  // namespace

Result<std::optional<PhysicalDevice>> SnapshotDevice(const InstanceFunctions& vk, VkPhysicalDevice handle,
                                                     const VulkanDevice* app) {
  PhysicalDevice device;
  device.handle = handle;
  VkPhysicalDeviceProperties first;
  vk.vkGetPhysicalDeviceProperties(handle, &first);
  if (first.apiVersion < VK_API_VERSION_1_1) return std::nullopt;
  device.api_version = std::min<uint32_t>(first.apiVersion, VK_MAKE_API_VERSION(0, 1, 4, 0xfff));
  if (app != nullptr) device.api_version = std::min(device.api_version, app->api_version);
  DeviceProfile& out = device.profile;
  const std::optional<ComputeQueues> queues = FindQueues(vk, handle, app);
  if (!queues) return std::nullopt;
  device.compute_queue_family = queues->family;
  device.side_queue = queues->side;
  out.limits.timestamp_valid_bits = queues->timestamp_bits;

  uint32_t count = 0;
  VkResult r = vk.vkEnumerateDeviceExtensionProperties(handle, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> extensions(count);
  if (r == VK_SUCCESS) r = vk.vkEnumerateDeviceExtensionProperties(handle, nullptr, &count, extensions.data());
  if (r != VK_SUCCESS && r != VK_INCOMPLETE) return VulkanError(r, "list device extensions");
  extensions.resize(std::min<std::size_t>(count, extensions.size()));
  for (const auto& e : extensions)
    if (app == nullptr || std::ranges::contains(app->extensions, e.extensionName))
      device.extensions.emplace(e.extensionName);

  FeatureChain features;
  if (app != nullptr) {
    ReadEnabledFeatures(app->features, device.extensions, device.api_version, features);
  } else {
    features.Link(device.extensions, device.api_version);
    vk.vkGetPhysicalDeviceFeatures2(handle, &features.core);
  }
  PropertyChain properties;
  properties.Link(device.extensions, device.api_version);
  vk.vkGetPhysicalDeviceProperties2(handle, &properties.core);

  const VkPhysicalDeviceProperties& core = properties.core.properties;
  out.name = core.deviceName;
  if (properties.has_driver) {
    out.driver_name = properties.driver.driverName;
    out.driver_info = properties.driver.driverInfo;
    out.driver_id = properties.driver.driverID;
  }
  out.driver_version = core.driverVersion;
  out.vendor_id = core.vendorID;
  out.device_id = core.deviceID;
  out.type = TypeOf(core.deviceType);
  out.is_cpu = out.type == DeviceType::kCpu;
  out.api_major = VK_API_VERSION_MAJOR(app != nullptr ? device.api_version : core.apiVersion);
  out.api_minor = VK_API_VERSION_MINOR(app != nullptr ? device.api_version : core.apiVersion);
  out.api_patch = VK_API_VERSION_PATCH(app != nullptr ? device.api_version : core.apiVersion);
  if (device.api_version >= VK_API_VERSION_1_3) {
    out.max_spirv_version = 0x00010600;
  } else if (device.api_version >= VK_API_VERSION_1_2) {
    out.max_spirv_version = 0x00010500;
  } else if (device.extensions.contains("VK_KHR_spirv_1_4") &&
             device.extensions.contains("VK_KHR_shader_float_controls")) {
    out.max_spirv_version = 0x00010400;
  }
  out.device_uuid = Hex(properties.id.deviceUUID);
  out.driver_uuid = Hex(properties.id.driverUUID);
  out.pipeline_cache_uuid = Hex(core.pipelineCacheUUID);
  if (properties.has_pci) {
    out.pci = Format("{:04x}:{:02x}:{:02x}.{}", properties.pci.pciDomain, properties.pci.pciBus,
                     properties.pci.pciDevice, properties.pci.pciFunction);
  }
  ReadLimits(properties, out);
  ReadFeatures(properties, features, device.extensions, out.features);
  out.features.external_memory_host = ImportsHostPages(vk, handle, device.extensions);
  ReadFloatControls(properties, out);
  ReadSubgroupOps(properties, features, out.subgroup);
  if (out.features.external_memory_host) {
    out.limits.host_import_alignment = static_cast<uint32_t>(properties.host.minImportedHostPointerAlignment);
  }
  ReadMemory(vk, handle, out);
  KRAFLA_TRY(ReadMatrices(vk, handle, out));
  return device;
}

}  // namespace krafla::vk
