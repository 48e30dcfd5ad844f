// SPDX-License-Identifier: Apache-2.0
// What a Vulkan device can do, as plain data: no Vulkan handle and no Vulkan header. Planning and code generation read
// only this, so that a program can be compiled for a device that is not here (tests/profiles/*.json). The Vulkan
// runtime takes the snapshot (vk_runtime/device_snapshot.h) and enables what the profile still says after
// WithDisabled(), so a feature switched off here is off everywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "krafla/status.h"

namespace krafla {

enum class DeviceType : uint8_t { kOther, kIntegrated, kDiscrete, kVirtual, kCpu };

// VkComponentTypeKHR. kOther: a type that we have no name for; never chosen.
enum class ComponentType : uint8_t {
  kF16,
  kF32,
  kF64,
  kS8,
  kS16,
  kS32,
  kS64,
  kU8,
  kU16,
  kU32,
  kU64,
  kBF16,
  kF8E4M3,
  kF8E5M2,
  kOther,
};
enum class MatrixScope : uint8_t { kSubgroup, kWorkgroup, kDevice, kQueueFamily, kOther };

std::string_view DeviceTypeName(DeviceType type);  // "discrete"
std::optional<DeviceType> FindDeviceType(std::string_view name);
std::string_view ComponentTypeName(ComponentType type);  // "bf16"

// One row of vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR: result[m,n] = a[m,k] * b[k,n] + c[m,n].
struct CooperativeMatrixShape {
  uint32_t m = 0, n = 0, k = 0;
  ComponentType a = ComponentType::kOther, b = ComponentType::kOther;
  ComponentType c = ComponentType::kOther, result = ComponentType::kOther;
  MatrixScope scope = MatrixScope::kSubgroup;
  bool saturating = false;
  bool operator==(const CooperativeMatrixShape&) const = default;
};

// One row of vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV: matrices whose sides are multiples of
// these, in workgroups of so many invocations (0: of any size).
struct FlexibleMatrix {
  uint32_t m = 0, n = 0, k = 0;
  ComponentType a = ComponentType::kOther, b = ComponentType::kOther;
  ComponentType c = ComponentType::kOther, result = ComponentType::kOther;
  MatrixScope scope = MatrixScope::kSubgroup;
  bool saturating = false;
  uint32_t workgroup_invocations = 0;
  bool operator==(const FlexibleMatrix&) const = default;
};

// VK_KHR_shader_float_controls for one width: which execution modes an entry point may declare.
struct FloatControls {
  bool preserve_signed_zero_inf_nan = false;
  bool rounding_rte = false, rounding_rtz = false;
  bool denorm_preserve = false, denorm_flush = false;
  bool operator==(const FloatControls&) const = default;
};

// Whether the modes of the three widths may differ (VkShaderFloatControlsIndependence).
enum class FloatIndependence : uint8_t { k32Only, kAll, kNone };

// Subgroup operations that compute shaders have.
struct SubgroupOps {
  bool basic = false, vote = false, arithmetic = false, ballot = false, shuffle = false, shuffle_relative = false;
  bool clustered = false, quad = false, rotate = false;
  bool operator==(const SubgroupOps&) const = default;
};

struct DeviceLimits {
  uint32_t max_workgroup_invocations = 128;
  uint32_t max_workgroup_size[3] = {128, 128, 64};
  uint32_t max_workgroup_count[3] = {65535, 65535, 65535};
  uint32_t max_shared_memory_bytes = 16384;
  uint64_t max_storage_buffer_range = uint64_t{1} << 27;
  uint64_t max_buffer_size = uint64_t{1} << 30;
  uint64_t max_allocation_size = uint64_t{1} << 30;  // of one vkAllocateMemory
  uint32_t max_push_constant_bytes = 128;
  uint32_t max_per_stage_storage_buffers = 4;
  uint32_t min_storage_buffer_offset_alignment = 256;
  uint32_t non_coherent_atom_bytes = 256;
  uint32_t subgroup_size = 1;      // the default, where none is required
  uint32_t min_subgroup_size = 1;  // equal to subgroup_size without size control
  uint32_t max_subgroup_size = 1;
  uint32_t max_workgroup_subgroups = 0;  // with a required size; 0: not told
  uint32_t host_import_alignment = 0;    // VK_EXT_external_memory_host; 0: not there
  uint32_t timestamp_valid_bits = 0;     // of the compute queue; 0: no timestamps
  double timestamp_period_ns = 0;
  // VK_NV_cooperative_matrix2: sides of matrices of any size, at the most; invocations of a workgroup that shares a
  // matrix, at the most; and its shared memory that the driver takes for that.
  uint32_t max_flexible_matrix_side = 0;
  uint32_t max_matrix_workgroup_invocations = 0;
  uint32_t matrix_workgroup_reserved_bytes = 0;
  bool operator==(const DeviceLimits&) const = default;
};

struct DeviceFeatures {
  // Arithmetic in shaders.
  bool int8 = false, int16 = false, int64 = false, float16 = false, float64 = false;
  // Storage-buffer members of 8 and 16 bits (also through device addresses).
  bool storage8 = false, storage16 = false;
  bool bfloat16 = false;      // VK_KHR_shader_bfloat16: the type (conversions only)
  bool bfloat16_dot = false;  // OpDot on it
  bool bfloat16_cooperative_matrix = false;
  bool float8 = false;  // VK_EXT_shader_float8: e4m3 and e5m2
  bool float8_cooperative_matrix = false;
  bool buffer_device_address = false;  // addresses come from a table of 64-bit words (pairs of u32 without int64)
  bool timeline_semaphore = false;
  bool synchronization2 = false;
  bool vulkan_memory_model = false, vulkan_memory_model_device_scope = false;
  bool scalar_block_layout = false;
  bool variable_pointers_storage_buffer = false, variable_pointers = false;
  bool workgroup_memory_explicit_layout = false;
  bool zero_initialize_workgroup_memory = false;
  bool maintenance4 = false;             // LocalSizeId; loose shader interfaces
  bool subgroup_size_control = false;    // a compute pipeline may require a subgroup size
  bool compute_full_subgroups = false;   // ... and full subgroups
  bool subgroup_extended_types = false;  // 8-, 16- and 64-bit operands in subgroup operations
  bool subgroup_uniform_control_flow = false, maximal_reconvergence = false;
  bool shader_float_controls = false, float_controls2 = false;
  bool cooperative_matrix = false;  // VK_KHR_cooperative_matrix in compute; shapes below
  // VK_NV_cooperative_matrix2: matrices of a workgroup, of any size (flexible_matrices below), a function called for
  // each element, loads and stores through tensor layouts.
  bool matrix_workgroup_scope = false, matrix_flexible_dimensions = false;
  bool matrix_per_element_operations = false, matrix_tensor_addressing = false;
  bool integer_dot_product = false;
  // integer_dot_product says that the instructions exist; these that the hardware is faster with them.
  bool dot4x8_packed_signed_accelerated = false, dot4x8_packed_unsigned_accelerated = false;
  bool dot4x8_packed_mixed_accelerated = false;
  bool atomic_int64 = false;
  bool atomic_float32_add_buffer = false, atomic_float32_add_shared = false;
  bool atomic_float64_add_buffer = false, atomic_float16_add_buffer = false;
  bool external_memory_host = false, memory_budget = false, pipeline_robustness = false, device_fault = false;
  bool pipeline_executable_properties = false;
  bool conditional_rendering = false;  // dispatches that a word in memory switches off
  bool operator==(const DeviceFeatures&) const = default;
};

struct MemoryHeap {
  uint64_t bytes = 0;
  bool device_local = false;
  bool operator==(const MemoryHeap&) const = default;
};

struct DeviceProfile {
  std::string name;             // VkPhysicalDeviceProperties.deviceName
  std::string driver_name;      // "llvmpipe"
  std::string driver_info;      // "Mesa 26.1.6 (LLVM 19.1.7)"
  uint32_t driver_version = 0;  // as the vendor encodes it
  uint32_t driver_id = 0;       // VkDriverId; 0: not told
  uint32_t vendor_id = 0, device_id = 0;
  DeviceType type = DeviceType::kOther;
  bool is_cpu = false;  // shaders run on the host's cores: no shared memory worth using, copies are memcpy
  uint32_t api_major = 1, api_minor = 1, api_patch = 0;
  uint32_t max_spirv_version = 0x00010300;  // as in the SPIR-V header word
  std::string device_uuid, driver_uuid;     // 32 hexadecimal digits
  std::string pipeline_cache_uuid;
  std::string pci;  // "0000:03:00.0"; empty: not told

  DeviceLimits limits;
  DeviceFeatures features;
  SubgroupOps subgroup;
  FloatControls float16_controls, float32_controls, float64_controls;
  FloatIndependence denorm_independence = FloatIndependence::k32Only;
  FloatIndependence rounding_independence = FloatIndependence::k32Only;
  std::vector<CooperativeMatrixShape> cooperative_matrices;
  std::vector<FlexibleMatrix> flexible_matrices;
  std::vector<MemoryHeap> heaps;
  bool unified_memory = false;  // all device-local memory can be mapped by the host: no staging copies

  // Asked for, and no property of a device, so that neither Hash nor ToJson knows it: functions as the hardware has
  // them instead of XLA's to the bit.
  bool fast_functions = false;
  std::vector<std::string> disabled;  // names given to WithDisabled, sorted, once each

  bool operator==(const DeviceProfile&) const = default;

  // Of everything above: equal profiles have equal hashes, on every machine.
  uint64_t Hash() const;
  std::string ToJson() const;  // indented; keys in a fixed order

  // Names are those of FeatureNames(); another name is INVALID_ARGUMENT that lists them.
  Result<DeviceProfile> WithDisabled(std::span<const std::string> names) const;
  // Switches on what the device reports only: names leave `disabled`, and `device` (the snapshot that this profile
  // came from) says what comes back.
  Result<DeviceProfile> WithEnabled(const DeviceProfile& device, std::span<const std::string> names) const;
};

// A missing key keeps its default (the least that Vulkan 1.1 promises); an unknown key or a wrong type is
// INVALID_ARGUMENT.
Result<DeviceProfile> ParseDeviceProfile(std::string_view json);

struct FeatureName {
  std::string_view name;  // "coopmat"
  std::string_view what;  // one line for --help
};
std::span<const FeatureName> FeatureNames();

}  // namespace krafla
