// SPDX-License-Identifier: Apache-2.0
#include "device/workarounds.h"

#include <gtest/gtest.h>

#include "profiles.h"

namespace krafla {
namespace {

TEST(Workarounds, OfTheProfiles) {
  const Workarounds lavapipe = WorkaroundsFor(testing::LoadProfile("lavapipe"));
  EXPECT_EQ(lavapipe, (Workarounds{.zero_quotients_from_bits = true,
                                   .u32_to_f32_in_halves = false,
                                   .corrects_division = false,
                                   .loads_without_lanes = true,
                                   .overcommits_memory = true}));
  const Workarounds swiftshader = WorkaroundsFor(testing::LoadProfile("swiftshader"));
  EXPECT_EQ(swiftshader, (Workarounds{.zero_quotients_from_bits = false,
                                      .u32_to_f32_in_halves = true,
                                      .corrects_division = false,
                                      .loads_without_lanes = false,
                                      .overcommits_memory = true}));
  for (const char* gpu : {"min_vulkan11", "amd_rdna3", "intel_xe2", "nvidia_ada"})
    EXPECT_EQ(WorkaroundsFor(testing::LoadProfile(gpu)), Workarounds()) << gpu;
}

// A driver's faults stay when its device is treated as a GPU, but division is then tested as on one.
TEST(Workarounds, WithoutHostCores) {
  const std::string names[] = {"host_cores"};
  auto profile = testing::LoadProfile("lavapipe").WithDisabled(names);
  ASSERT_TRUE(profile);
  EXPECT_TRUE(WorkaroundsFor(*profile).zero_quotients_from_bits);
  EXPECT_TRUE(WorkaroundsFor(*profile).corrects_division);
}

}  // namespace
}  // namespace krafla
