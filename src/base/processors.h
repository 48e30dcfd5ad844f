// SPDX-License-Identifier: Apache-2.0
// How many processors this process may keep busy.
#pragma once

#include <optional>
#include <string>

namespace krafla {

// The processors' time per second that the control groups of this process allow it (cgroup v2: cpu.max, v1:
// cpu.cfs_quota_us): the least of its group's and all groups' around it. Nothing where there is no such limit. `root`
// is where the file system begins.
std::optional<double> ProcessorQuota(const std::string& root = "/");

// The processors that the scheduler lets this process run on, but no more than its quota, rounded up, can pay for.
int UsableProcessors();

}  // namespace krafla
