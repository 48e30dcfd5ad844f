// SPDX-License-Identifier: Apache-2.0
#include "api/vulkan/self_test_cases.h"

#include <bit>

#include "api/front_end.h"
#include "base/thread_pool.h"
#include "cpu_fallback/executor/cpu_kernel.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "spirv_codegen/emit.h"

namespace krafla {
namespace {

struct Source {
  std::string_view feature, text;
  bool (*has)(const DeviceFeatures&);
};

constexpr Source kSources[] = {
    {"bda",
     R"(HloModule bda ENTRY m { x = s32[1000] parameter(0) y = s32[1000] multiply(x, x) ROOT r = s32[1000] add(y, x) })",
     [](const DeviceFeatures& f) { return f.buffer_device_address; }},
    {"subgroup", R"(HloModule subgroup
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY m { x = f32[64,256] parameter(0) z = f32[] constant(0) ROOT r = f32[64] reduce(x, z), dimensions={1}, to_apply=add })",
     [](const DeviceFeatures&) { return true; }},
    {"subgroup", R"(HloModule subgroup_max
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }
ENTRY m { x = f32[64,256] parameter(0) z = f32[] constant(-inf) ROOT r = f32[64] reduce(x, z), dimensions={1}, to_apply=max })",
     [](const DeviceFeatures&) { return true; }},
    {"storage8",
     R"(HloModule storage8 ENTRY m { x = s8[1003] parameter(0) y = s8[1003] negate(x) ROOT r = s8[1003] reverse(y), dimensions={0} })",
     [](const DeviceFeatures& f) { return f.storage8; }},
    {"storage16",
     R"(HloModule storage16 ENTRY m { x = f16[1003] parameter(0) y = f16[1003] add(x, x) ROOT r = f16[1003] reverse(y), dimensions={0} })",
     [](const DeviceFeatures& f) { return f.storage16; }},
    {"int64",
     R"(HloModule int64 ENTRY m { x = s64[512] parameter(0) y = s64[512] multiply(x, x) ROOT r = s64[512] subtract(x, y) })",
     [](const DeviceFeatures& f) { return f.int64; }},
    {"fp64",
     R"(HloModule fp64 ENTRY m { x = f64[512] parameter(0) y = f64[512] multiply(x, x) ROOT r = f64[512] subtract(x, y) })",
     [](const DeviceFeatures& f) { return f.float64; }},
    // Of odd sizes, so that edges are staged and finished too; then with whole tiles and a transposed operand, and
    // large enough for the two larger tiles.
    {"coopmat",
     R"(HloModule coopmat ENTRY m { x = f16[37,37] parameter(0) ROOT r = f32[37,37] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} })",
     [](const DeviceFeatures& f) { return f.cooperative_matrix; }},
    {"coopmat",
     R"(HloModule coopmat_bf16 ENTRY m { x = bf16[37,37] parameter(0) ROOT r = f32[37,37] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} })",
     [](const DeviceFeatures& f) { return f.cooperative_matrix; }},
    {"coopmat",
     R"(HloModule coopmat_s8 ENTRY m { x = s8[37,37] parameter(0) ROOT r = s32[37,37] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} })",
     [](const DeviceFeatures& f) { return f.cooperative_matrix; }},
    {"coopmat",
     R"(HloModule coopmat_tiles64 ENTRY m { x = f16[440,40] parameter(0) ROOT r = f32[440,440] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1} })",
     [](const DeviceFeatures& f) { return f.cooperative_matrix; }},
    {"coopmat",
     R"(HloModule coopmat_tiles128 ENTRY m { x = f16[1000,40] parameter(0) ROOT r = f32[1000,1000] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1} })",
     [](const DeviceFeatures& f) { return f.cooperative_matrix; }},
    {"coopmat",
     R"(HloModule coopmat_u8 ENTRY m { x = u8[64,64] parameter(0) ROOT r = u32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1} })",
     [](const DeviceFeatures& f) { return f.cooperative_matrix; }},
};

// Whole numbers from -3 to 4, as `type` stores them.
std::vector<std::byte> Numbers(ElementType type, int64_t count) {
  std::vector<std::byte> out(static_cast<std::size_t>(count * StorageBytes(type)));
  for (int64_t i = 0; i < count; ++i) {
    int64_t v = (i * 5 + i / 7) % 8 - 3;
    std::byte* to = out.data() + i * StorageBytes(type);
    auto put = [&](auto value) { std::memcpy(to, &value, sizeof value); };
    if (type == ElementType::kF32) put(static_cast<float>(v));
    else if (type == ElementType::kF64) put(static_cast<double>(v));
    else if (type == ElementType::kS64) put(v * 1'000'000'007);
    else if (type == ElementType::kS32) put(static_cast<int32_t>(v * 1'000'003));
    else if (type == ElementType::kS8 || type == ElementType::kU8) put(static_cast<int8_t>(v));
    else if (type == ElementType::kBF16)
      put(static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(v)) >> 16));
    else if (type == ElementType::kF16) {
      constexpr uint16_t kHalf[] = {0xC200, 0xC000, 0xBC00, 0x0000, 0x3C00, 0x4000, 0x4200, 0x4400};  // -3 .. 4
      put(kHalf[v + 3]);
    }
  }
  return out;
}

Result<std::vector<vk::SelfTestCase>> CasesOf(const Source& source, const DeviceProfile& profile) {
  KRAFLA_ASSIGN(std::unique_ptr<Module> module, ParseHloText(source.text, "self-test"));
  CompileReport report;
  KRAFLA_ASSIGN(plan::ProgramPlan plan, OptimizeAndPlan(std::move(module), {}, report));
  if (plan.kernels.size() != 1 || plan.kernels[0].bindings.size() != 2)
    return Internal("The self-test for {} is not one kernel of two buffers.", source.feature);
  const plan::KernelPlan& kernel = plan.kernels[0];
  spirv::EmitOptions options;
  options.enable_cooperative_matrix = source.feature == "coopmat";
  auto emitted = spirv::Emit(kernel, profile, options);
  // A kernel that this device does not take, or that does not lean on the feature, has nothing to show.
  std::vector<vk::SelfTestCase> none;
  if (!emitted || emitted->kernels.size() != 1 || emitted->dispatches.size() != 1 || !emitted->scratch_bytes.empty() ||
      emitted->kernels[0].buffers.size() != 2 ||
      (options.enable_cooperative_matrix && !emitted->kernels[0].uses_cooperative_matrix))
    return none;
  spirv::EmittedKernel& code = emitted->kernels[0];

  vk::SelfTestCase c;
  c.feature = source.feature;
  c.kernel.spirv = std::move(code.words);
  c.kernel.name = Format("self-test of {}", source.feature);
  c.kernel.binding_count = 2;
  c.kernel.subgroup_size = code.subgroup_size;
  c.kernel.full_subgroups = code.full_subgroups;
  std::copy(emitted->dispatches[0].grid.begin(), emitted->dispatches[0].grid.end(), c.grid);
  c.input = Numbers(kernel.bindings[0].storage, kernel.bindings[0].element_count);
  c.expected.resize(
      static_cast<std::size_t>(kernel.bindings[1].element_count * StorageBytes(kernel.bindings[1].storage)));
  CpuKernelOptions cpu;
  cpu.threads = SharedThreadPool().threads();
  KRAFLA_ASSIGN(std::unique_ptr<CpuKernel> reference, CompileKernel(kernel, cpu));
  AlignedBytes scratch(static_cast<std::size_t>(reference->scratch_bytes()) + AlignedBytes::kAlignment);
  std::byte* bindings[] = {c.input.data(), c.expected.data()};
  KRAFLA_TRY(reference->Run(bindings, SharedThreadPool(), scratch.data()));
  std::vector<vk::SelfTestCase> out;
  out.push_back(std::move(c));
  return out;
}

}  // namespace

Result<std::vector<vk::SelfTestCase>> SelfTestCases(const DeviceProfile& profile, bool with_cooperative_matrices) {
  std::vector<vk::SelfTestCase> out;
  for (const Source& source : kSources) {
    if (!source.has(profile.features)) continue;
    if (source.feature == "coopmat" && !with_cooperative_matrices) continue;
    KRAFLA_ASSIGN(std::vector<vk::SelfTestCase> cases, CasesOf(source, profile));
    for (vk::SelfTestCase& c : cases) out.push_back(std::move(c));
  }
  return out;
}

}  // namespace krafla
