// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/self_test.h"

#include <atomic>

#include "test_device.h"

namespace krafla::vk {
namespace {

class SelfTestTest : public DeviceTest {
 protected:
  // [1][0] = [0][0] after no turns: a copy of one word.
  SelfTestCase CopyWord(std::string feature, uint32_t expected) {
    SelfTestCase c;
    c.feature = std::move(feature);
    c.kernel = SpinKernel(device_->profile());
    uint32_t word = 42;
    auto in = std::as_bytes(std::span(&word, 1)), out = std::as_bytes(std::span(&expected, 1));
    c.input.assign(in.begin(), in.end());
    c.expected.assign(out.begin(), out.end());
    return c;
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, SelfTestTest, ::testing::ValuesIn(AllModes()), ModeName);

TEST_P(SelfTestTest, FindsTheFeaturesThatAreWrong) {
  std::string folder = FreshFolder("self-test");
  ASSERT_NO_FATAL_FAILURE(Open({.cache_dir = folder}));
  SelfTestCase broken = CopyWord("int8", 42);
  broken.kernel.spirv = {};
  std::vector<SelfTestCase> cases = {CopyWord("fp16", 42), CopyWord("coopmat", 43), CopyWord("fp16", 42), broken};
  auto outcome = RunSelfTest(device_, cases);
  ASSERT_OK(outcome);
  EXPECT_EQ(outcome->failed, (std::vector<std::string>{"coopmat", "int8"}));
  ASSERT_EQ(outcome->reasons.size(), 2u);
  EXPECT_NE(outcome->reasons[0].find("byte 0 of the output is 0x2a, not 0x2b"), std::string::npos)
      << outcome->reasons[0];
  EXPECT_FALSE(outcome->from_cache);
  // From the disk, and not after the cases have changed.
  outcome = RunSelfTest(device_, cases);
  ASSERT_OK(outcome);
  EXPECT_TRUE(outcome->from_cache);
  EXPECT_EQ(outcome->failed, (std::vector<std::string>{"coopmat", "int8"}));
  cases[1] = CopyWord("coopmat", 42);
  outcome = RunSelfTest(device_, cases);
  ASSERT_OK(outcome);
  EXPECT_FALSE(outcome->from_cache);
  EXPECT_EQ(outcome->failed, (std::vector<std::string>{"int8"}));
  std::filesystem::remove_all(folder);
}

// A device that is lost says nothing of the feature that was being tested.
TEST_P(SelfTestTest, ALostDeviceIsNotRemembered) {
  static std::atomic<bool> lost;
  static PFN_vkQueueSubmit submit;
  lost = false;
  std::string folder = FreshFolder("self-test-loss");
  const auto patch = [](VolkDeviceTable& table) {
    submit = table.vkQueueSubmit;
    table.vkQueueSubmit = [](VkQueue queue, uint32_t count, const VkSubmitInfo* info, VkFence fence) {
      return lost ? VK_ERROR_DEVICE_LOST : submit(queue, count, info, fence);
    };
  };
  ASSERT_NO_FATAL_FAILURE(Open({.cache_dir = folder, .patch_functions = patch}));
  const std::vector<SelfTestCase> cases = {CopyWord("fp16", 42), CopyWord("coopmat", 42)};
  lost = true;
  std::string lost_in;
  auto outcome = RunSelfTest(device_, cases, {"fp16"}, &lost_in);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code(), StatusCode::kAborted);
  EXPECT_EQ(lost_in, "coopmat");
  lost = false;
  ASSERT_NO_FATAL_FAILURE(Open({.cache_dir = folder}));
  // What was left out fails for this device, and is tested again by the next.
  outcome = RunSelfTest(device_, cases, {"fp16"});
  ASSERT_OK(outcome);
  EXPECT_EQ(outcome->failed, std::vector<std::string>{"fp16"});
  outcome = RunSelfTest(device_, cases);
  ASSERT_OK(outcome);
  EXPECT_FALSE(outcome->from_cache);
  EXPECT_TRUE(outcome->failed.empty());
  outcome = RunSelfTest(device_, cases);
  ASSERT_OK(outcome);
  EXPECT_TRUE(outcome->from_cache);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace krafla::vk
