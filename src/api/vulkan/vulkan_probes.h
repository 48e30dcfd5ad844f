// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "vk_runtime/probes.h"

namespace krafla {

struct ProbedDevice {
  std::string name;  // of the device, as its driver gives it
  std::vector<vk::ProbeReport> reports;
};

// Asks the device that `selector` ("vulkan", "vulkan:1", ...) names, with all features that it reports: before the
// start-up self-test could switch any off.
Result<ProbedDevice> ProbeVulkanDevice(std::string_view selector);

// What is done differently because of its driver's faults (device/workarounds.h), in words.
std::vector<std::string> WorkaroundNames(const DeviceProfile& profile);

// Where compiled pipelines and outcomes of the self-test are kept; empty: nowhere.
std::string CacheFolder();

}  // namespace krafla
