// SPDX-License-Identifier: Apache-2.0
// The devices of tests/profiles.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "device/device_profile.h"

namespace krafla::testing {

inline constexpr const char* kProfiles[] = {"lavapipe",  "swiftshader", "min_vulkan11",   "amd_rdna3",
                                            "intel_xe2", "nvidia_ada",  "nvidia_coopmat2"};

inline std::string ProfileText(const std::string& name) {
  std::ifstream file(std::string(KRAFLA_SOURCE_DIR) + "/tests/profiles/" + name + ".json");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline DeviceProfile LoadProfile(const std::string& name) {
  auto profile = ParseDeviceProfile(ProfileText(name));
  EXPECT_TRUE(profile) << name << ": " << profile.error().ToString();
  return profile ? *profile : DeviceProfile();
}

}  // namespace krafla::testing
