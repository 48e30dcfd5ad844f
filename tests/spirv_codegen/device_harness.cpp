// SPDX-License-Identifier: Apache-2.0
#include "device_harness.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <spirv-tools/libspirv.hpp>
#include <sstream>

#include "bfloat16_stand_in.h"
#include "vk_runtime/device.h"
#include "vk_runtime/instance.h"
#include "vk_runtime/program.h"

namespace krafla::spirv::testing {
namespace {

namespace fs = std::filesystem;

class VulkanDevice : public TestDevice {
 public:
  VulkanDevice(std::shared_ptr<vk::Device> device, std::string name)
      : device_(std::move(device)), name_(std::move(name)) {}
  const DeviceProfile& profile() const override { return device_->profile(); }
  std::string name() const override { return name_; }

  Result<> Run(const plan::KernelPlan& plan, std::vector<Bytes>& memory, const EmitOptions& options,
               double* seconds) override {
    KRAFLA_ASSIGN(EmittedProgram program, Emit(plan, profile(), options));
    std::vector<vk::ProgramBuffer> buffers;
    std::vector<std::shared_ptr<vk::Buffer>> all;
    auto add = [&](int64_t size) -> Result<> {
      const auto bytes = static_cast<uint64_t>(std::max<int64_t>(size, 16));
      KRAFLA_ASSIGN(auto buffer, device_->Allocate(bytes, vk::MemoryKind::kDevice));
      all.push_back(buffer);
      buffers.push_back(vk::ProgramBuffer::Fixed(buffer));
      return {};
    };
    for (const Bytes& bytes : memory) {
      KRAFLA_TRY(add(static_cast<int64_t>(bytes.size())));
      if (!bytes.empty()) KRAFLA_TRY(device_->Upload(*all.back(), 0, std::as_bytes(std::span(bytes))));
    }
    for (int64_t size : program.scratch_bytes) KRAFLA_TRY(add(size));
    if (!program.table.empty()) {
      KRAFLA_TRY(add(static_cast<int64_t>(program.table.size()) * 4));
      KRAFLA_TRY(device_->Upload(*all.back(), 0, std::as_bytes(std::span(program.table))));
    }
    std::vector<vk::KernelCode> codes;
    for (const EmittedKernel& k : program.kernels) {
      const std::string errors = Validate(k.words, profile());
      if (!errors.empty()) return Internal("spirv-val on {}: {}\n{}", k.variant, errors, Disassemble(k.words));
      codes.push_back({.spirv = k.words,
                       .name = k.variant,
                       .binding_count = static_cast<uint32_t>(k.buffers.size()),
                       .subgroup_size = k.subgroup_size,
                       .full_subgroups = k.full_subgroups,
                       .splittable = true});
    }
    if (getenv("KRAFLA_TRACE") != nullptr) {
      for (const EmittedKernel& k : program.kernels) fprintf(stderr, "%s: %s\n", plan.name.c_str(), k.variant.c_str());
    }
    KRAFLA_ASSIGN(auto pipelines, device_->pipelines().Create(codes));
    std::vector<vk::Step> steps;
    for (const EmittedDispatch& d : program.dispatches) {
      vk::Launch launch;
      launch.pipeline = static_cast<uint32_t>(d.kernel);
      for (std::size_t i = 0; i < 3; ++i) launch.grid[i] = d.grid[i];
      for (const EmittedKernel::BufferUse& use : program.kernels[static_cast<std::size_t>(d.kernel)].buffers) {
        const auto b = static_cast<uint32_t>(use.buffer);
        launch.bindings.push_back({b, 0, all[b]->size()});
        launch.access.push_back(static_cast<vk::Access>((use.read ? 1 : 0) | (use.written ? 2 : 0)));
      }
      launch.push = d.push;
      steps.push_back(std::move(launch));
    }
    KRAFLA_ASSIGN(auto run, vk::Program::Create(device_, buffers, pipelines, steps));
    KRAFLA_TRY(run->Run({}));
    for (std::size_t i = 0; i < memory.size(); ++i) {
      if (!memory[i].empty()) KRAFLA_TRY(device_->Download(*all[i], 0, std::as_writable_bytes(std::span(memory[i]))));
    }
    if (seconds != nullptr) {
      *seconds = 1e9;
      for (int i = 0; i < 3; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        KRAFLA_TRY(run->Run({}));
        *seconds = std::min(*seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
      }
    }
    return {};
  }

 private:
  std::shared_ptr<vk::Device> device_;
  std::string name_;
};

// One driver's device, in each addressing model that it has.
using Models = std::vector<std::unique_ptr<TestDevice>>;

std::vector<Models> OpenDrivers() {
  const fs::path swiftshader = fs::path(KRAFLA_SOURCE_DIR) / ".cache/swiftshader/vk_swiftshader_icd.json";
  std::string drivers = "/usr/share/vulkan/icd.d/lvp_icd.json";
  if (fs::exists(swiftshader)) drivers += ":" + swiftshader.string();
  setenv("VK_DRIVER_FILES", drivers.c_str(), /*overwrite=*/0);
  std::vector<Models> out;
  auto instance = vk::Instance::Create();
  if (!instance) return out;
  for (const vk::PhysicalDevice& physical : (*instance)->devices()) {
    Models models;
    for (const bool addresses : {true, false}) {
      DeviceProfile profile = physical.profile;
      if (addresses && !profile.features.buffer_device_address) continue;
      profile.features.buffer_device_address = addresses;
      vk::DeviceOptions options;
      options.cache_dir = "";
      auto device = vk::Device::Create(*instance, physical, profile, options);
      if (!device) continue;
      models.push_back(
          std::make_unique<VulkanDevice>(*device, profile.driver_name + (addresses ? ", addresses" : ", descriptors")));
    }
    if (!models.empty()) out.push_back(std::move(models));
  }
  return out;
}

}  // namespace

std::vector<DeviceProfile> Profiles() {
  std::vector<DeviceProfile> out;
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(fs::path(KRAFLA_SOURCE_DIR) / "tests/profiles")) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    auto profile = ParseDeviceProfile(text.str());
    KRAFLA_CHECK(profile.has_value());
    out.push_back(*profile);
    if (profile->features.buffer_device_address) {
      profile->features.buffer_device_address = false;
      out.push_back(*profile);
    }
  }
  return out;
}

std::string Validate(const std::vector<uint32_t>& module, const DeviceProfile& profile) {
  const std::vector<uint32_t> words = WithoutBFloat16(module);
  const spv_target_env env = profile.max_spirv_version >= 0x00010600   ? SPV_ENV_VULKAN_1_3
                             : profile.max_spirv_version >= 0x00010500 ? SPV_ENV_VULKAN_1_2
                                                                       : SPV_ENV_VULKAN_1_1;
  spvtools::SpirvTools tools(env);
  std::string out;
  tools.SetMessageConsumer([&](spv_message_level_t, const char*, const spv_position_t& at, const char* message) {
    out += std::to_string(at.index) + ": " + message + "\n";
  });
  spvtools::ValidatorOptions options;
  if (tools.Validate(words.data(), words.size(), options)) return "";
  return out.empty() ? "invalid" : out;
}

std::string Disassemble(const std::vector<uint32_t>& words) {
  spvtools::SpirvTools tools(SPV_ENV_VULKAN_1_3);
  std::string text;
  tools.Disassemble(words, &text, SPV_BINARY_TO_TEXT_OPTION_FRIENDLY_NAMES | SPV_BINARY_TO_TEXT_OPTION_INDENT);
  return text;
}

std::vector<TestDevice*> Devices() {
  static const std::vector<Models> drivers = OpenDrivers();
  static std::string test;
  static std::size_t turn = 0;
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = info == nullptr ? "" : std::string(info->test_suite_name()) + "." + info->name();
  if (name != test) {
    test = name;
    turn = std::accumulate(name.begin(), name.end(), std::size_t{0});
  }
  std::vector<TestDevice*> out;
  for (std::size_t d = 0; d < drivers.size(); ++d) out.push_back(drivers[d][(turn + d) % drivers[d].size()].get());
  ++turn;
  return out;
}

}  // namespace krafla::spirv::testing
