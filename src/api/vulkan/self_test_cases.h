// SPDX-License-Identifier: Apache-2.0
// The kernels of the start-up self-test: small modules that lean on one feature each, with their answers,
// which are computed as whole numbers and not by any kernel. Values are small, so that every order of summation gives
// the same bits.
#pragma once

#include <vector>

#include "device/device_profile.h"
#include "krafla/status.h"
#include "vk_runtime/self_test.h"

namespace krafla {

// Cooperative matrices of the sizes that a device lists, and of any size (VK_NV_cooperative_matrix2).
struct MatrixKinds {
  bool fixed = false, flexible = false;
  auto operator<=>(const MatrixKinds&) const = default;
};

// One or more cases a feature that `profile` has and kernels use; those of cooperative matrices, which take some
// drivers long to compile, only of the kinds that will be used.
Result<std::vector<vk::SelfTestCase>> SelfTestCases(const DeviceProfile& profile, const MatrixKinds& matrices);

}  // namespace krafla
