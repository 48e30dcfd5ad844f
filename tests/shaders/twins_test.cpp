// SPDX-License-Identifier: Apache-2.0
// Kernels that were written by hand, in GLSL, beside the generated ones: the same bits on the same device. Where the
// order of a sum is the kernel's own choice, the numbers are whole and small, so that every order gives the same.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "conv_ADDRESSES.h"
#include "conv_DESCRIPTORS.h"
#include "elementwise_ADDRESSES.h"
#include "elementwise_DESCRIPTORS.h"
#include "gemm_tile_ADDRESSES.h"
#include "gemm_tile_DESCRIPTORS.h"
#include "krafla/local_client.h"
#include "krafla/shape_util.h"
#include "programs.h"
#include "reduce_rows_ADDRESSES.h"
#include "reduce_rows_DESCRIPTORS.h"
#include "sort_step_ADDRESSES.h"
#include "sort_step_DESCRIPTORS.h"
#include "vk_runtime/instance.h"
#include "vk_runtime/run_once.h"

namespace krafla::shaders {
namespace {

using Words = std::vector<uint32_t>;

// lavapipe, unless the environment chooses the drivers.
const char* Selector() { return std::getenv("VK_DRIVER_FILES") != nullptr ? "vulkan" : "vulkan:llvmpipe"; }

class Twins : public ::testing::Test {
 protected:
  void SetUp() override {
    auto client = LocalClient::Create(Selector());
    if (!client) GTEST_SKIP() << "No Vulkan device to test on: " << client.error().ToString();
    client_ = std::make_unique<LocalClient>(std::move(*client));
    auto instance = vk::Instance::Create();
    ASSERT_TRUE(instance.has_value()) << instance.error().ToString();
    auto physical = (*instance)->Select(Selector());
    ASSERT_TRUE(physical.has_value()) << physical.error().ToString();
    for (const bool addresses : {true, false}) {
      DeviceProfile profile = (*physical)->profile;
      if (addresses && !profile.features.buffer_device_address) continue;
      profile.features.buffer_device_address = addresses;
      auto device = vk::Device::Create(*instance, **physical, profile, {.cache_dir = ""});
      ASSERT_TRUE(device.has_value()) << device.error().ToString();
      devices_.push_back(*device);
    }
  }

  static float Random(uint32_t& state) {
    state = state * 1664525u + 1013904223u;
    return static_cast<float>(static_cast<int32_t>(state)) * 0x1p-28f;
  }

  // Of the program's parameters: what it computes on the device, every step there; by default, and as a GPU would.
  std::vector<Words> Generated(const FamilyProgram& program, const std::vector<Literal>& arguments) {
    std::vector<Words> out;
    for (const std::set<std::string>& disabled : {std::set<std::string>{}, {"host_cores"}}) {
      auto computation = LoadHlo(program.hlo, program.name);
      if (!computation) return ADD_FAILURE() << computation.error().ToString(), out;
      auto executable = client_->Compile(*computation, {.disabled = disabled, .enabled = {}, .strict = true});
      if (!executable) return ADD_FAILURE() << executable.error().ToString(), out;
      auto result = executable->Run(arguments);
      if (!result) return ADD_FAILURE() << result.error().ToString(), out;
      Words words(result->bytes().size() / 4);
      std::memcpy(words.data(), result->bytes().data(), words.size() * 4);
      out.push_back(std::move(words));
    }
    return out;
  }

  void Compare(const FamilyProgram& program, const std::vector<Literal>& arguments, std::span<const uint32_t> addresses,
               std::span<const uint32_t> descriptors, std::array<uint32_t, 3> grid, const Words& push) {
    const std::vector<Words> generated = Generated(program, arguments);
    ASSERT_EQ(generated.size(), 2u);
    EXPECT_EQ(generated[0], generated[1]) << "the kernels for a GPU differ from those for the device";
    ASSERT_FALSE(devices_.empty());
    for (const auto& device : devices_) {
      SCOPED_TRACE(device->uses_addresses() ? "addresses" : "descriptors");
      const auto words = device->uses_addresses() ? addresses : descriptors;
      const vk::KernelCode code = {.spirv = Words(words.begin(), words.end()),
                                   .name = program.name,
                                   .binding_count = static_cast<uint32_t>(arguments.size()) + 1};
      std::vector<std::span<const std::byte>> inputs;
      for (const Literal& argument : arguments) inputs.push_back(std::as_bytes(std::span(argument.bytes())));
      Words output(generated[0].size(), 0xdeadbeefu);
      auto ran = vk::RunOnce(device, code, grid, inputs, std::as_writable_bytes(std::span(output)), push, program.name);
      ASSERT_TRUE(ran.has_value()) << ran.error().ToString();
      std::size_t different = 0;
      for (std::size_t i = 0; i < output.size(); ++i) {
        if (output[i] != generated[0][i] && different++ < 3) {
          ADD_FAILURE() << program.name << ", element " << i << ": " << std::hex << output[i] << " by the twin, "
                        << generated[0][i] << " by krafla";
        }
      }
      EXPECT_EQ(different, 0u);
    }
  }

  static Literal Floats(std::vector<int64_t> dimensions, auto value) {
    auto literal = Literal::Create(ShapeUtil::MakeShape(F32, dimensions).value());
    EXPECT_TRUE(literal.has_value());
    uint32_t state = static_cast<uint32_t>(dimensions.size());
    for (float& v : literal->data<float>()) v = value(state);
    return std::move(*literal);
  }
  static float Whole(uint32_t& state) { return std::floor(Random(state)); }

  std::unique_ptr<LocalClient> client_;
  std::vector<std::shared_ptr<vk::Device>> devices_;
};

TEST_F(Twins, Elementwise) {
  std::vector<Literal> arguments;
  arguments.push_back(Floats({1000}, Random));
  arguments.push_back(Floats({1000}, [](uint32_t& state) { return Random(state) * Random(state); }));
  Compare(kElementwise, arguments, kelementwise_ADDRESSES, kelementwise_DESCRIPTORS, {16, 1, 1}, {1000});
}

TEST_F(Twins, ReduceRows) {
  std::vector<Literal> arguments;
  arguments.push_back(Floats({24, 700}, Whole));
  Compare(kReduceRows, arguments, kreduce_rows_ADDRESSES, kreduce_rows_DESCRIPTORS, {24, 1, 1}, {24, 700});
}

TEST_F(Twins, GemmTile) {
  std::vector<Literal> arguments;
  arguments.push_back(Floats({50, 70}, Whole));
  arguments.push_back(Floats({70, 90}, Whole));
  Compare(kGemmTile, arguments, kgemm_tile_ADDRESSES, kgemm_tile_DESCRIPTORS, {6, 4, 1}, {50, 90, 70});
}

TEST_F(Twins, Conv) {
  std::vector<Literal> arguments;
  arguments.push_back(Floats({2, 9, 11, 6}, Whole));
  arguments.push_back(Floats({3, 3, 6, 10}, Whole));
  Compare(kConv, arguments, kconv_ADDRESSES, kconv_DESCRIPTORS, {31, 1, 1}, {9, 11, 6, 10, 1980});
}

TEST_F(Twins, SortStep) {
  auto keys = Literal::Create(ShapeUtil::MakeShape(S32, {3, 256}).value());
  ASSERT_TRUE(keys.has_value());
  uint32_t state = 7;
  for (int32_t& key : keys->data<int32_t>()) {
    state = state * 1664525u + 1013904223u;
    key = static_cast<int32_t>(state) >> 24;  // with equals
  }
  std::vector<Literal> arguments;
  arguments.push_back(std::move(*keys));
  Compare(kSortStep, arguments, ksort_step_ADDRESSES, ksort_step_DESCRIPTORS, {3, 1, 1}, {});
}

}  // namespace
}  // namespace krafla::shaders
