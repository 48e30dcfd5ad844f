// SPDX-License-Identifier: Apache-2.0
// A device for tests: the first one, with validation where the layer is installed.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "AXPY_ADDRESSES.h"
#include "AXPY_DESCRIPTORS.h"
#include "GROUPS_ADDRESSES.h"
#include "GROUPS_DESCRIPTORS.h"
#include "SPIN_ADDRESSES.h"
#include "SPIN_DESCRIPTORS.h"
#include "vk_runtime/device.h"
#include "vk_runtime/pipeline.h"
#include "vk_runtime/program.h"

namespace krafla::vk {

#define ASSERT_OK(expr)                                             \
  do {                                                              \
    const auto& assert_result = (expr);                             \
    ASSERT_TRUE(assert_result) << assert_result.error().ToString(); \
  } while (false)
#define EXPECT_OK(expr)                                             \
  do {                                                              \
    const auto& expect_result = (expr);                             \
    EXPECT_TRUE(expect_result) << expect_result.error().ToString(); \
  } while (false)

// One for the whole binary; null, with the reason, where there is no device. It is not destroyed: the validation
// layer's own statics may be gone by then.
inline std::shared_ptr<Instance> TestInstance(std::string& why_not) {
  static const auto& instance = *new Result<std::shared_ptr<Instance>>([] {
    Result<std::shared_ptr<Instance>> validated = Instance::Create({.validation = Validation::kCalls});
    return validated ? std::move(validated) : Instance::Create();
  }());
  if (instance) return *instance;
  why_not = instance.error().ToString();
  return nullptr;
}

inline std::string FreshFolder(const std::string& name) {
  std::string folder = ::testing::TempDir() + "/krafla-" + name + "-" + std::to_string(::getpid());
  std::filesystem::remove_all(folder);
  return folder;
}

template <std::size_t N>
std::vector<uint32_t> Words(const uint32_t (&words)[N]) {
  return std::vector<uint32_t>(words, words + N);
}

inline KernelCode AxpyKernel(const DeviceProfile& p) {
  return {.spirv = p.features.buffer_device_address ? Words(kAXPY_ADDRESSES) : Words(kAXPY_DESCRIPTORS),
          .name = "axpy",
          .binding_count = 3};
}
inline KernelCode GroupsKernel(const DeviceProfile& p) {
  return {.spirv = p.features.buffer_device_address ? Words(kGROUPS_ADDRESSES) : Words(kGROUPS_DESCRIPTORS),
          .name = "groups",
          .binding_count = 1,
          .splittable = true};
}
inline KernelCode SpinKernel(const DeviceProfile& p) {
  return {.spirv = p.features.buffer_device_address ? Words(kSPIN_ADDRESSES) : Words(kSPIN_DESCRIPTORS),
          .name = "spin",
          .binding_count = 2};
}

// The parameter: features to switch off, so that every path of the runtime runs on every driver.
using Modes = std::vector<std::string>;
inline const std::vector<Modes>& AllModes() {
  static const std::vector<Modes> modes = [] {
    Modes everything;
    for (const FeatureName& feature : FeatureNames()) everything.emplace_back(feature.name);
    return std::vector<Modes>{{}, {"bda"}, {"timeline"}, {"unified"}, everything};
  }();
  return modes;
}
inline std::string ModeName(const ::testing::TestParamInfo<Modes>& info) {
  if (info.param.empty()) return "all_features";
  return info.param.size() == 1 ? "no_" + info.param[0] : "no_features";
}

class DeviceTest : public ::testing::TestWithParam<Modes> {
 protected:
  void SetUp() override {
    std::string why_not;
    instance_ = TestInstance(why_not);
    if (instance_ == nullptr) GTEST_SKIP() << "No Vulkan device to test on: " << why_not;
    instance_->TakeValidationMessages();
  }
  void TearDown() override {
    device_.reset();
    if (instance_ == nullptr) return;
    for (const std::string& message : instance_->TakeValidationMessages()) ADD_FAILURE() << message;
  }
  const PhysicalDevice& physical() { return instance_->devices()[0]; }
  void Open(DeviceOptions options = {.cache_dir = ""}, Modes also_off = {}) {
    Modes off = GetParam();
    off.insert(off.end(), also_off.begin(), also_off.end());
    auto profile = physical().profile.WithDisabled(off);
    ASSERT_OK(profile);
    auto device = Device::Create(instance_, physical(), *profile, std::move(options));
    ASSERT_OK(device);
    device_ = std::move(*device);
  }
  std::shared_ptr<Buffer> MakeBuffer(const std::vector<uint32_t>& words) {
    auto buffer = device_->Allocate(words.size() * 4, MemoryKind::kDevice);
    EXPECT_OK(buffer);
    if (!buffer) return nullptr;
    EXPECT_OK(device_->Upload(**buffer, 0, std::as_bytes(std::span(words))));
    return *buffer;
  }
  std::vector<uint32_t> Read(const Buffer& buffer) {
    std::vector<uint32_t> words(buffer.size() / 4);
    EXPECT_OK(device_->Download(buffer, 0, std::as_writable_bytes(std::span(words))));
    return words;
  }
  std::vector<std::shared_ptr<Pipeline>> MakePipelines(std::vector<KernelCode> kernels) {
    auto pipelines = device_->pipelines().Create(kernels);
    EXPECT_OK(pipelines);
    return pipelines ? std::move(*pipelines) : std::vector<std::shared_ptr<Pipeline>>();
  }

  std::shared_ptr<Instance> instance_;
  std::shared_ptr<Device> device_;
};

inline std::vector<uint32_t> Ramp(std::size_t n, uint32_t first = 0, uint32_t step = 1) {
  std::vector<uint32_t> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = first + step * static_cast<uint32_t>(i);
  return out;
}

// c = a * k + b over `words` words, of buffers a, b and c from their beginnings.
inline Launch Axpy(uint32_t a, uint32_t b, uint32_t c, uint32_t words, uint32_t k) {
  Launch launch;
  launch.grid[0] = (words + 63) / 64;
  uint64_t bytes = uint64_t{words} * 4;
  launch.bindings = {{a, 0, bytes}, {b, 0, bytes}, {c, 0, bytes}};
  launch.access = {Access::kRead, Access::kRead, Access::kWrite};
  launch.push = {words, k};
  return launch;
}

}  // namespace krafla::vk
