// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/device_selector.h"

#include <gtest/gtest.h>

#include <vector>

namespace krafla::vk {
namespace {

class Selector : public ::testing::Test {
 protected:
  Selector() {
    gpu_.name = "NVIDIA GeForce RTX 4090";
    gpu_.type = DeviceType::kDiscrete;
    gpu_.device_uuid = "c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1";
    gpu_.pci = "0000:03:00.0";
    other_ = gpu_;
    other_.device_uuid = "c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2";
    other_.pci = "0001:03:00.0";
    cpu_.name = "llvmpipe (LLVM 19.1.7, 256 bits)";
    cpu_.type = DeviceType::kCpu;
    cpu_.device_uuid = "6d657361323600000000000000000000";
    all_ = {&gpu_, &other_, &cpu_};
  }
  int Pick(std::string_view text) {
    auto picked = SelectDevice(text, all_);
    if (!picked) code_ = picked.error().code();
    message_ = picked ? "" : picked.error().message();
    return picked ? static_cast<int>(*picked) : -1;
  }
  DeviceProfile gpu_, other_, cpu_;
  std::vector<const DeviceProfile*> all_;
  StatusCode code_ = StatusCode::kUnknown;
  std::string message_;
};

TEST_F(Selector, Picks) {
  EXPECT_EQ(Pick("vulkan"), 0);
  EXPECT_EQ(Pick("vulkan:0"), 0);
  EXPECT_EQ(Pick("vulkan:2"), 2);
  EXPECT_EQ(Pick("vulkan:uuid=c2c2c2c2-c2c2-c2c2-c2c2-C2C2C2C2C2C2"), 1);
  EXPECT_EQ(Pick("vulkan:pci=0001:03:00.0"), 1);
  EXPECT_EQ(Pick("vulkan:pci=03:00.0"), 0);
  EXPECT_EQ(Pick("vulkan:type=cpu"), 2);
  EXPECT_EQ(Pick("vulkan:type=discrete"), 0);
  EXPECT_EQ(Pick("vulkan:\"rtx 4090\""), 0);
  EXPECT_EQ(Pick("vulkan:LLVMpipe"), 2);
  EXPECT_EQ(Pick("vulkan:\"19\""), 2) << "quoted digits are a name";
}

TEST_F(Selector, SaysWhatThereIs) {
  for (const char* text : {"vulkan:3", "vulkan:99999999999999999999", "vulkan:type=integrated", "vulkan:radeon",
                           "vulkan:uuid=00", "vulkan:pci=04:00.0"}) {
    EXPECT_EQ(Pick(text), -1) << text;
    EXPECT_EQ(code_, StatusCode::kNotFound) << text;
    EXPECT_NE(message_.find("vulkan:2 is llvmpipe"), std::string::npos) << message_;
  }
}

TEST_F(Selector, RefusesWhatIsNoSelector) {
  for (const char* text : {"", "cpu", "vulkan:", "vulkans", "vulkan:type=gpu", "vulkan:name=x", "vulkan:\"\""}) {
    EXPECT_EQ(Pick(text), -1) << text;
    EXPECT_EQ(code_, StatusCode::kInvalidArgument) << text;
  }
  all_.clear();
  EXPECT_EQ(Pick("vulkan"), -1);
  EXPECT_EQ(code_, StatusCode::kNotFound);
}

}  // namespace
}  // namespace krafla::vk
