// SPDX-License-Identifier: Apache-2.0
// The probes on every device that is here, in both addressing models: each is asked or says why not, and is right.
#include <gtest/gtest.h>

#include "vk_runtime/instance.h"
#include "vk_runtime/probes.h"

namespace krafla::shaders {
namespace {

TEST(Probes, EveryDeviceIsRight) {
  auto instance = vk::Instance::Create();
  if (!instance) GTEST_SKIP() << "No Vulkan device to test on: " << instance.error().ToString();
  for (const vk::PhysicalDevice& physical : (*instance)->devices()) {
    for (const bool addresses : {true, false}) {
      DeviceProfile profile = physical.profile;
      if (addresses && !profile.features.buffer_device_address) continue;
      profile.features.buffer_device_address = addresses;
      SCOPED_TRACE(profile.name + (addresses ? ", addresses" : ", descriptors"));
      auto device = vk::Device::Create(*instance, physical, profile, {.cache_dir = ""});
      ASSERT_TRUE(device.has_value()) << device.error().ToString();
      auto reports = vk::RunProbes(*device);
      ASSERT_TRUE(reports.has_value()) << reports.error().ToString();
      EXPECT_EQ(reports->size(), 4u);
      for (const vk::ProbeReport& report : *reports) {
        EXPECT_NE(report.answers.empty(), report.not_asked.empty()) << report.name;
        for (const vk::ProbeAnswer& a : report.answers)
          EXPECT_TRUE(a.right) << report.name << ": " << a.question << ": " << a.answer;
      }
      EXPECT_EQ((*reports)[3].not_asked.empty(), addresses) << "16 bytes through addresses";
    }
  }
}

}  // namespace
}  // namespace krafla::shaders
