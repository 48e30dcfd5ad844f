// SPDX-License-Identifier: Apache-2.0
// What became of one check.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "api/client.h"
#include "api/group/device_group.h"
#include "command.h"
#include "recorded/corpus.h"

namespace krafla::cli {

struct Outcome {
  enum class Kind { kPassed, kFailed, kSkipped, kError } kind = Kind::kError;
  std::string reason;
  Comparison worst;
  CompileReport report;
  double run_ms = 0;
};

inline Outcome Error(const Status& status) {
  Outcome out;
  out.reason = status.message();
  return out;
}

// Runs a recorded case on a device, or on several where it is for several, and compares.
Outcome CheckCase(const RecordedCase& c, DeviceGroup& group, const CompileOptions& options,
                  const DeviceOptions& device);

// StableHLO files under `path` that check themselves: the file, or what is in the folder, but for folders of recorded
// cases.
std::vector<std::string> FindSelfChecks(const std::string& path);
// Every function of one, by name.
std::vector<std::pair<std::string, Outcome>> RunSelfChecks(const std::string& file, DeviceGroup& group,
                                                           const CompileOptions& options,
                                                           const GroupOptions& group_options);

}  // namespace krafla::cli
