// SPDX-License-Identifier: Apache-2.0
#include "device/device_profile.h"

#include <algorithm>
#include <array>

#include "device/device_profile_fields.h"

namespace krafla {
namespace {

constexpr std::array<std::string_view, 5> kDeviceTypes = {"other", "integrated", "discrete", "virtual", "cpu"};
constexpr std::array<std::string_view, 15> kComponentTypes = {
    "f16", "f32", "f64", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "bf16", "f8e4m3", "f8e5m2", "other"};
constexpr std::array<std::string_view, 5> kScopes = {"subgroup", "workgroup", "device", "queue_family", "other"};
constexpr std::array<std::string_view, 3> kIndependence = {"32_only", "all", "none"};

// Without VK_NV_cooperative_matrix2.
void DropFlexibleMatrices(DeviceProfile& p) {
  p.features.matrix_workgroup_scope = p.features.matrix_flexible_dimensions = false;
  p.features.matrix_per_element_operations = p.features.matrix_tensor_addressing = false;
  p.flexible_matrices.clear();
}

// Drops the cooperative-matrix rows that use a type that the profile no longer has.
void DropMatrices(DeviceProfile& p, std::initializer_list<ComponentType> types) {
  auto uses = [&](ComponentType t) { return std::ranges::find(types, t) != types.end(); };
  auto row_uses = [&](const auto& s) { return uses(s.a) || uses(s.b) || uses(s.c) || uses(s.result); };
  std::erase_if(p.cooperative_matrices, row_uses);
  std::erase_if(p.flexible_matrices, row_uses);
  if (p.cooperative_matrices.empty()) p.features.cooperative_matrix = false;
  if (p.cooperative_matrices.empty() || p.flexible_matrices.empty()) DropFlexibleMatrices(p);
}

struct Switch {
  FeatureName name;
  void (*off)(DeviceProfile&);
};

constexpr Switch kSwitches[] = {
    {{"host_cores", "what is chosen because shaders run on the host's cores"},
     [](DeviceProfile& p) { p.is_cpu = false; }},
    {{"coopmat", "cooperative matrices"},
     [](DeviceProfile& p) {
       p.features.cooperative_matrix = false;
       p.features.bfloat16_cooperative_matrix = p.features.float8_cooperative_matrix = false;
       p.cooperative_matrices.clear();
       DropFlexibleMatrices(p);
     }},
    {{"coopmat2", "cooperative matrices of a workgroup and of any size (VK_NV_cooperative_matrix2)"},
     DropFlexibleMatrices},
    {{"fp16", "16-bit float arithmetic"},
     [](DeviceProfile& p) {
       p.features.float16 = p.features.atomic_float16_add_buffer = false;
       p.float16_controls = {};
       DropMatrices(p, {ComponentType::kF16});
     }},
    {{"fp64", "64-bit float arithmetic"},
     [](DeviceProfile& p) {
       p.features.float64 = p.features.atomic_float64_add_buffer = false;
       p.float64_controls = {};
       DropMatrices(p, {ComponentType::kF64});
     }},
    {{"int8", "8-bit integer arithmetic"},
     [](DeviceProfile& p) {
       p.features.int8 = false;
       DropMatrices(p, {ComponentType::kS8, ComponentType::kU8});
     }},
    {{"int16", "16-bit integer arithmetic"},
     [](DeviceProfile& p) {
       p.features.int16 = false;
       DropMatrices(p, {ComponentType::kS16, ComponentType::kU16});
     }},
    {{"int64", "64-bit integer arithmetic"},
     [](DeviceProfile& p) {
       p.features.int64 = p.features.atomic_int64 = false;
       DropMatrices(p, {ComponentType::kS64, ComponentType::kU64});
     }},
    {{"storage8", "8-bit members in storage buffers"}, [](DeviceProfile& p) { p.features.storage8 = false; }},
    {{"storage16", "16-bit members in storage buffers"}, [](DeviceProfile& p) { p.features.storage16 = false; }},
    {{"bf16", "the shader type bfloat16"},
     [](DeviceProfile& p) {
       p.features.bfloat16 = p.features.bfloat16_dot = p.features.bfloat16_cooperative_matrix = false;
       DropMatrices(p, {ComponentType::kBF16});
     }},
    {{"fp8", "the shader types e4m3 and e5m2"},
     [](DeviceProfile& p) {
       p.features.float8 = p.features.float8_cooperative_matrix = false;
       DropMatrices(p, {ComponentType::kF8E4M3, ComponentType::kF8E5M2});
     }},
    {{"bda", "buffer device addresses (descriptors instead)"},
     [](DeviceProfile& p) { p.features.buffer_device_address = false; }},
    {{"subgroup", "subgroup operations"},
     [](DeviceProfile& p) {
       p.subgroup = {};
       p.features.subgroup_extended_types = p.features.subgroup_uniform_control_flow = false;
       p.features.maximal_reconvergence = false;
     }},
    {{"subgroup_size", "required subgroup sizes and full subgroups"},
     [](DeviceProfile& p) {
       p.features.subgroup_size_control = p.features.compute_full_subgroups = false;
       p.limits.min_subgroup_size = p.limits.max_subgroup_size = p.limits.subgroup_size;
     }},
    {{"timeline", "timeline semaphores (fences instead)"},
     [](DeviceProfile& p) { p.features.timeline_semaphore = false; }},
    {{"sync2", "synchronization2"}, [](DeviceProfile& p) { p.features.synchronization2 = false; }},
    {{"memory_model", "the Vulkan memory model"},
     [](DeviceProfile& p) { p.features.vulkan_memory_model = p.features.vulkan_memory_model_device_scope = false; }},
    {{"float_controls", "float execution modes and float_controls2"},
     [](DeviceProfile& p) {
       p.features.shader_float_controls = p.features.float_controls2 = false;
       p.float16_controls = p.float32_controls = p.float64_controls = {};
     }},
    {{"float_controls2", "per-instruction float modes"}, [](DeviceProfile& p) { p.features.float_controls2 = false; }},
    {{"dot", "integer dot product instructions"},
     [](DeviceProfile& p) {
       p.features.integer_dot_product = p.features.dot4x8_packed_signed_accelerated = false;
       p.features.dot4x8_packed_unsigned_accelerated = p.features.dot4x8_packed_mixed_accelerated = false;
     }},
    {{"atomic_float", "float atomics"},
     [](DeviceProfile& p) {
       p.features.atomic_float32_add_buffer = p.features.atomic_float32_add_shared = false;
       p.features.atomic_float64_add_buffer = p.features.atomic_float16_add_buffer = false;
     }},
    {{"atomic_int64", "64-bit integer atomics"}, [](DeviceProfile& p) { p.features.atomic_int64 = false; }},
    {{"scalar_layout", "scalar block layout"}, [](DeviceProfile& p) { p.features.scalar_block_layout = false; }},
    {{"host_import", "import of host pages (VK_EXT_external_memory_host)"},
     [](DeviceProfile& p) {
       p.features.external_memory_host = false;
       p.limits.host_import_alignment = 0;
     }},
    {{"conditional", "dispatches that the device skips by itself (VK_EXT_conditional_rendering)"},
     [](DeviceProfile& p) { p.features.conditional_rendering = false; }},
    {{"unified", "mapped device memory (staging copies instead)"}, [](DeviceProfile& p) { p.unified_memory = false; }},
};

const std::array<FeatureName, std::size(kSwitches)>& SwitchNames() {
  static const auto names = [] {
    std::array<FeatureName, std::size(kSwitches)> out;
    std::ranges::transform(kSwitches, out.begin(), &Switch::name);
    return out;
  }();
  return names;
}

const Switch* FindSwitch(std::string_view name) {
  auto it = std::ranges::find(kSwitches, name, [](const Switch& s) { return s.name.name; });
  return it == std::end(kSwitches) ? nullptr : it;
}

Failure UnknownFeature(std::string_view name) {
  std::string known;
  for (const Switch& s : kSwitches) known += (known.empty() ? "" : ", ") + std::string(s.name.name);
  return InvalidArgument("'{}' is not the name of a device feature; the names are {}.", name, known);
}

}  // namespace

Names NamesOf(DeviceType) { return kDeviceTypes; }
Names NamesOf(ComponentType) { return kComponentTypes; }
Names NamesOf(MatrixScope) { return kScopes; }
Names NamesOf(FloatIndependence) { return kIndependence; }

std::string_view DeviceTypeName(DeviceType type) { return kDeviceTypes[static_cast<std::size_t>(type)]; }
std::optional<DeviceType> FindDeviceType(std::string_view name) {
  const auto at = std::ranges::find(kDeviceTypes, name);
  if (at == kDeviceTypes.end()) return std::nullopt;
  return static_cast<DeviceType>(at - kDeviceTypes.begin());
}
std::string_view ComponentTypeName(ComponentType type) { return kComponentTypes[static_cast<std::size_t>(type)]; }
std::span<const FeatureName> FeatureNames() { return SwitchNames(); }

// Device names come from drivers: bytes that are not UTF-8 are replaced, where nlohmann would throw.
std::string DeviceProfile::ToJson() const {
  return ToJsonValue(*this).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

uint64_t DeviceProfile::Hash() const {
  // FNV-1a over the JSON text: slow, portable, and complete by construction. Asked for once a compilation.
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : ToJson()) hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

Result<DeviceProfile> DeviceProfile::WithDisabled(std::span<const std::string> names) const {
  DeviceProfile out = *this;
  for (const std::string& feature : names) {
    const Switch* found = FindSwitch(feature);
    if (found == nullptr) return UnknownFeature(feature);
    found->off(out);
    out.disabled.push_back(feature);
  }
  std::ranges::sort(out.disabled);
  auto repeated = std::ranges::unique(out.disabled);
  out.disabled.erase(repeated.begin(), repeated.end());
  return out;
}

Result<DeviceProfile> DeviceProfile::WithEnabled(const DeviceProfile& device,
                                                 std::span<const std::string> names) const {
  for (const std::string& feature : names) {
    if (FindSwitch(feature) == nullptr) return UnknownFeature(feature);
  }
  std::vector<std::string> still = disabled;
  std::erase_if(still, [&](const std::string& feature) { return std::ranges::find(names, feature) != names.end(); });
  return device.WithDisabled(still);
}

Result<DeviceProfile> ParseDeviceProfile(std::string_view json) {
  DeviceProfile out;
  KRAFLA_TRY(JsonReader("device profile").Read(json, out));
  return out;
}

}  // namespace krafla
