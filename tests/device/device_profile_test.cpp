// SPDX-License-Identifier: Apache-2.0
#include "device/device_profile.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "profiles.h"

namespace krafla {
namespace {

using testing::LoadProfile;
using testing::ProfileText;

TEST(DeviceProfile, JsonRoundTrip) {
  for (const char* name : testing::kProfiles) {
    DeviceProfile profile = LoadProfile(name);
    auto again = ParseDeviceProfile(profile.ToJson());
    ASSERT_TRUE(again) << again.error().ToString();
    EXPECT_EQ(*again, profile) << name;
    EXPECT_EQ(again->Hash(), profile.Hash()) << name;
    // The file holds every key.
    EXPECT_EQ(std::ranges::count(profile.ToJson(), ':'), std::ranges::count(ProfileText(name), ':')) << name;
  }
}

TEST(DeviceProfile, ProfilesAreWhatTheySay) {
  EXPECT_TRUE(LoadProfile("lavapipe").is_cpu);
  EXPECT_EQ(LoadProfile("lavapipe").limits.subgroup_size, 8u);
  EXPECT_EQ(LoadProfile("lavapipe").cooperative_matrices.size(), 4u);
  EXPECT_FALSE(LoadProfile("swiftshader").features.int64);
  EXPECT_EQ(LoadProfile("amd_rdna3").limits.min_subgroup_size, 32u);
  EXPECT_TRUE(LoadProfile("intel_xe2").features.cooperative_matrix);
  EXPECT_EQ(LoadProfile("nvidia_ada").limits.max_shared_memory_bytes, 49152u);
  // The table of required limits of the Vulkan 1.1 specification is what an empty profile starts from.
  DeviceProfile least = LoadProfile("min_vulkan11"), empty;
  EXPECT_EQ(least.features, empty.features);
  EXPECT_EQ(least.limits, empty.limits);
}

TEST(DeviceProfile, EveryFieldCountsInTheHash) {
  DeviceProfile a = LoadProfile("amd_rdna3"), b = a;
  b.limits.max_workgroup_count[2] -= 1;
  EXPECT_NE(a, b);
  EXPECT_NE(a.Hash(), b.Hash());
  b = a;
  b.cooperative_matrices[3].saturating = true;
  EXPECT_NE(a.Hash(), b.Hash());
  b = a;
  b.features.pipeline_executable_properties = false;
  EXPECT_NE(a.Hash(), b.Hash());
  b = a = LoadProfile("nvidia_coopmat2");
  b.flexible_matrices[0].workgroup_invocations = 64;
  EXPECT_NE(a.Hash(), b.Hash());
}

TEST(DeviceProfile, EveryFeatureNameSwitchesSomethingOff) {
  DeviceProfile everything = LoadProfile("amd_rdna3");
  everything.features.float8 = everything.features.float8_cooperative_matrix = true;
  everything.features.conditional_rendering = true;
  everything.features.matrix_flexible_dimensions = true;
  everything.unified_memory = true;
  everything.is_cpu = true;
  for (const FeatureName& feature : FeatureNames()) {
    std::vector<std::string> names = {std::string(feature.name)};
    auto off = everything.WithDisabled(names);
    ASSERT_TRUE(off);
    EXPECT_EQ(off->disabled, names);
    DeviceProfile unnamed = *off;
    unnamed.disabled.clear();
    EXPECT_NE(unnamed, everything) << feature.name;
    auto on = off->WithEnabled(everything, names);
    ASSERT_TRUE(on);
    EXPECT_EQ(*on, everything) << feature.name;
  }
}

TEST(DeviceProfile, MatricesGoWithTheirTypes) {
  DeviceProfile p = LoadProfile("nvidia_ada");
  std::vector<std::string> names = {"fp16", "bf16"};
  auto off = p.WithDisabled(names);
  ASSERT_TRUE(off);
  EXPECT_TRUE(off->features.cooperative_matrix);
  for (const auto& shape : off->cooperative_matrices) EXPECT_NE(shape.a, ComponentType::kF16);
  names = {"fp16", "bf16", "int8", "fp16"};
  off = p.WithDisabled(names);
  ASSERT_TRUE(off);
  EXPECT_FALSE(off->features.cooperative_matrix);
  EXPECT_EQ(off->disabled, (std::vector<std::string>{"bf16", "fp16", "int8"}));
}

TEST(DeviceProfile, FlexibleMatricesGoAloneAndWithTheOthers) {
  const DeviceProfile p = LoadProfile("nvidia_coopmat2");
  for (const char* name : {"coopmat2", "coopmat"}) {
    const std::vector<std::string> names = {name};
    auto off = p.WithDisabled(names);
    ASSERT_TRUE(off);
    EXPECT_TRUE(off->flexible_matrices.empty());
    EXPECT_FALSE(off->features.matrix_workgroup_scope || off->features.matrix_flexible_dimensions ||
                 off->features.matrix_per_element_operations || off->features.matrix_tensor_addressing);
    EXPECT_EQ(off->features.cooperative_matrix, std::string_view(name) == "coopmat2");
  }
  const std::vector<std::string> names = {"bf16"};
  auto off = p.WithDisabled(names);
  ASSERT_TRUE(off);
  EXPECT_EQ(off->flexible_matrices.size(), p.flexible_matrices.size() - 2);
}

TEST(DeviceProfile, UnknownNamesAndBadJsonAreRefused) {
  std::vector<std::string> names = {"coopmatt"};
  auto off = DeviceProfile().WithDisabled(names);
  ASSERT_FALSE(off);
  EXPECT_NE(off.error().message().find("coopmat"), std::string::npos);
  auto refused = [](std::string_view text, std::string_view part) {
    auto profile = ParseDeviceProfile(text);
    ASSERT_FALSE(profile) << text;
    EXPECT_EQ(profile.error().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(profile.error().message().find(part), std::string::npos) << profile.error().message();
  };
  refused("", "not JSON");
  refused("[1", "not JSON");
  refused("7", "not an object");
  refused(R"({"nam": "x"})", "unknown key 'nam'");
  refused(R"({"name": 7})", "not a string");
  refused(R"({"limits": {"subgroup_size": -1}})", "The device profile.limits.subgroup_size is -1");
  refused(R"({"limits": {"subgroup_size": 4294967296}})", "between 0 and 4294967295");
  refused(R"({"limits": {"max_workgroup_size": [1, 2]}})", "array of 3");
  refused(R"({"type": "gpu"})", "no name");
  refused(R"({"cooperative_matrices": [{"a": "f15"}]})", "cooperative_matrices[0].a");
  refused(std::string(100000, '['), "levels deep");
  auto empty = ParseDeviceProfile("{}");
  ASSERT_TRUE(empty);
  EXPECT_EQ(*empty, DeviceProfile());
}

}  // namespace
}  // namespace krafla
