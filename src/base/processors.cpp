// SPDX-License-Identifier: Apache-2.0
#include "base/processors.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>

#include "base/system.h"

namespace krafla {

namespace {

std::optional<double> Least(std::optional<double> a, std::optional<double> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

// cgroup v2: "150000 100000", or "max 100000".
std::optional<double> ReadCpuMax(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  double quota = 0, period = 0;
  if (!(file >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

// cgroup v1: two files; a quota of -1 is none.
std::optional<double> ReadCfsQuota(const std::string& folder) {
  std::ifstream quota_file(folder + "/cpu.cfs_quota_us"), period_file(folder + "/cpu.cfs_period_us");
  double quota = 0, period = 0;
  if (!(quota_file >> quota) || !(period_file >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

bool HasController(std::string_view controllers, std::string_view name) {
  while (!controllers.empty()) {
    const std::size_t comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == name) return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

// The group's own limit and those of the groups around it. In a container its path may be one that is seen from
// outside only; the folder at the top is the container's then.
template <typename Read>
std::optional<double> LeastOnTheWayUp(const std::string& top, std::string group, Read read) {
  std::optional<double> least;
  while (true) {
    least = Least(least, read(top + group));
    const std::size_t slash = group.find_last_of('/');
    if (slash == std::string::npos || group.empty()) return least;
    group.resize(slash);
  }
}

}  // namespace

std::optional<double> ProcessorQuota(const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  std::optional<double> least;
  std::string line;
  // "0::/user.slice" (v2), "4:cpu,cpuacct:/docker/1234" (v1)
  while (std::getline(file, line)) {
    const std::size_t first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string group = line.substr(second + 1);
    if (group == "/") group.clear();
    if (controllers.empty()) {
      least = Least(least, LeastOnTheWayUp(root + "/sys/fs/cgroup", group, ReadCpuMax));
    } else if (HasController(controllers, "cpu")) {
      for (const char* top : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"})
        least = Least(least, LeastOnTheWayUp(root + top, group, ReadCfsQuota));
    }
  }
  return least;
}

int UsableProcessors() {
  int processors = static_cast<int>(std::thread::hardware_concurrency());
  if (const int allowed = os::AllowedProcessors(); allowed > 0) processors = allowed;
  if (const std::optional<double> quota = ProcessorQuota(); quota && *quota < processors)
    processors = static_cast<int>(std::ceil(*quota));
  return std::max(processors, 1);
}

}  // namespace krafla
