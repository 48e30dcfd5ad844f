// SPDX-License-Identifier: Apache-2.0
// The start-up self-test: drivers may compute otherwise than they report. Each case runs one small kernel
// that relies on one feature; a feature with a case that is wrong is to be switched off (DeviceProfile::WithDisabled).
// The kernels come from the code generator; outcomes are kept on disk for each device, driver and set of cases.
#pragma once

#include <cstddef>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "krafla/status.h"
#include "vk_runtime/device.h"
#include "vk_runtime/pipeline.h"

namespace krafla::vk {

// The kernel's binding 0 holds `input`, binding 1 takes the output. One dispatch of `grid` workgroups.
struct SelfTestCase {
  std::string feature;  // a name of krafla::FeatureNames()
  KernelCode kernel;
  uint32_t grid[3] = {1, 1, 1};
  std::vector<std::byte> input, expected;  // expected: bit for bit
};

struct SelfTestOutcome {
  std::vector<std::string> failed;   // features, sorted, once each
  std::vector<std::string> reasons;  // a sentence for each failed case, with the first byte that differs
  bool from_cache = false;           // then there are no reasons
};

// A kernel that the driver refuses to compile, or fails to run, fails its feature. A lost device is an error: `lost_in`
// then is the feature whose case was running, which may have had nothing to do with it. Features in `without` are not
// tested, and fail. Only what shows that the driver computes wrongly or refuses a kernel is kept on disk, not what
// failed for want of memory or time or without a reason.
Result<SelfTestOutcome> RunSelfTest(const std::shared_ptr<Device>& device, std::span<const SelfTestCase> cases,
                                    const std::set<std::string>& without = {}, std::string* lost_in = nullptr);

}  // namespace krafla::vk
