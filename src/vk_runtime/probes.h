// SPDX-License-Identifier: Apache-2.0
// What a driver does, asked by kernels that were written by hand (shaders/probes) and compiled by glslang. The start-up
// self-test runs krafla's own kernels; a mistake that the generator and the driver share would hide from it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "krafla/status.h"
#include "vk_runtime/device.h"

namespace krafla::vk {

struct ProbeAnswer {
  std::string question, answer;
  bool right = true;  // false: krafla's kernels count on another answer
};

struct ProbeReport {
  std::string name;       // of the file in shaders/probes
  std::string not_asked;  // why not: what the device lacks
  std::vector<ProbeAnswer> answers;
};

// Every probe. A kernel that the driver refuses is an answer that is not right; a device that is lost is an error.
Result<std::vector<ProbeReport>> RunProbes(const std::shared_ptr<Device>& device);

}  // namespace krafla::vk
