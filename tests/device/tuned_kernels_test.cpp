// SPDX-License-Identifier: Apache-2.0
#include "device/tuned_kernels.h"

#include <gtest/gtest.h>

#include <set>

#include "device/tuning.h"
#include "profiles.h"

namespace krafla {
namespace {

// Each is read, and says something else than every other; of GPUs and of CPUs it may say what their own row says.
TEST(TunedKernels, CandidatesAreTunings) {
  const std::set<std::string_view> families = {"loop", "reduce", "dot",     "convolution", "sort",
                                               "scan", "fft",    "scatter", "linalg"};
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (const TuningCandidate& candidate : TuningCandidates()) {
    Tuning tuning;
    const auto read = OverrideTuning(candidate.json, tuning);
    EXPECT_TRUE(read) << candidate.json << ": " << read.error().message();
    EXPECT_TRUE(families.contains(candidate.family)) << candidate.family;
    EXPECT_TRUE(seen.emplace(candidate.family, candidate.json).second) << candidate.json;
  }
}

TunedKernels Some() {
  TunedKernels out;
  out.kernels["dot-1"] = {"dot.1", "dot", R"({"panel":{"lanes":16}})", "dot.panel", "dot.panel", 2, 1.5, false};
  out.kernels["loop-2"] = {"add \"quoted\"", "loop", "", "loop.vec4", "loop.vec4", 1, 1, false};
  return out;
}

TEST(TunedKernels, ThereAndBack) {
  const DeviceProfile profile = testing::LoadProfile("amd_rdna3");
  const auto read = ParseTuned(TunedToJson(Some(), profile), profile);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(*read, Some());
}

TEST(TunedKernels, OfAnotherDeviceOrDriver) {
  const DeviceProfile profile = testing::LoadProfile("amd_rdna3");
  const std::string json = TunedToJson(Some(), profile);
  DeviceProfile other = profile;
  ++other.driver_version;
  for (const DeviceProfile& p : {other, testing::LoadProfile("nvidia_ada")}) {
    const auto read = ParseTuned(json, p);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code(), StatusCode::kFailedPrecondition);
    EXPECT_NE(read.error().message().find("Run krafla tune here."), std::string::npos);
  }
}

TEST(TunedKernels, DamagedOrOutOfRange) {
  const DeviceProfile profile = testing::LoadProfile("amd_rdna3");
  const std::string json = TunedToJson(Some(), profile);
  EXPECT_FALSE(ParseTuned(json.substr(0, json.size() / 2), profile));
  TunedKernels wrong = Some();
  wrong.kernels["dot-1"].tuning = R"({"panel":{"lanes":15}})";
  const auto read = ParseTuned(TunedToJson(wrong, profile), profile);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace krafla
